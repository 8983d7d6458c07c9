"""Which weights of a pretrained Transformer a training changes: low-rank adapters, frozen layers."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from torch import nn
from transformers import PreTrainedModel

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.ranker import RankerModule
from trainables.rankers.settings import LoraSettings

if TYPE_CHECKING:
    from peft import LoraModel

TARGETS, FREEZE = "ranker.lora.targets", "ranker.freeze"


class AdaptedModule(RankerModule):
    """A ranker over a pretrained model that can be trained by adapters alone."""

    adapters: LoraModel | None = None

    def add_adapters(self, model: PreTrainedModel, settings: LoraSettings) -> None:
        """Freezes the model and adds LoRA adapters to it (Hu et al. 2022), by peft; nothing with rank 0. An adapter's
        second matrix is zero at first: the scores are those without it."""
        if settings.rank:
            object.__setattr__(self, "adapters", _adapters(model, settings))  # no part: its parameters are the model's

    def merge_adapters(self) -> None:
        if self.adapters is not None:
            self.adapters.merge_and_unload()
            object.__setattr__(self, "adapters", None)

    def freeze(self, model: PreTrainedModel, count: int | None) -> None:
        """Takes the first `count` layers of the model and what lies before them, its embeddings, out of training. None:
        nothing is frozen. Raises ConfigError for more layers than there are, or if nothing is left to train."""
        if count is None:
            return
        layers = _layers(model)
        if count > len(layers):
            wrong = f"{count}, and the model has {len(layers)} layers"
            raise ConfigError(Problem(FREEZE, wrong, f"at most {len(layers)}"))
        in_layers = {id(parameter) for parameter in layers.parameters()}
        embeddings = takewhile(lambda parameter: id(parameter) not in in_layers, model.parameters())
        for parameter in (*embeddings, *layers[:count].parameters()):
            parameter.requires_grad_(False)
        if not any(parameter.requires_grad for parameter in self.parameters()):
            raise ConfigError(Problem(FREEZE, f"{count} leaves nothing to train", f"at most {count - 1}"))


def _adapters(model: PreTrainedModel, settings: LoraSettings) -> LoraModel:
    from peft import LoraConfig, LoraModel  # here: few need it, and it takes a second

    alpha = 2 * settings.rank if settings.alpha is None else settings.alpha
    # Whole numbers are all that the type of `lora_alpha` allows, but it is only divided by the rank.
    config = LoraConfig(r=settings.rank, lora_alpha=alpha, target_modules=target_names(model, settings))  # pyright: ignore[reportArgumentType]
    return LoraModel(model, config, "default")


def target_names(model: nn.Module, settings: LoraSettings) -> list[str]:
    """The full names of the linear layers that get an adapter. Raises ConfigError for a target that names none."""
    linear = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if settings.targets is None:
        return linear
    missing = [target for target in settings.targets if not any(_is_named(name, target) for name in linear)]
    if missing:
        layers = dict.fromkeys(name.rpartition(".")[2] for name in linear)
        wrong = f"no linear layer of the model is named {', '.join(map(repr, missing))}"
        raise ConfigError(Problem(TARGETS, wrong, f"some of {', '.join(layers)}; null: all"))
    return [name for name in linear if any(_is_named(name, target) for target in settings.targets)]


def _is_named(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _layers(model: PreTrainedModel) -> nn.ModuleList:
    """The layers of a model. Raises ConfigError for layers that share their weights, as ALBERT's."""
    count = model.config.num_hidden_layers
    for part in model.modules():
        if isinstance(part, nn.ModuleList) and len(part) == count:
            return part
    wrong = "the layers of the model share their weights"
    raise ConfigError(Problem(FREEZE, wrong, "null, or a model whose layers have weights of their own"))
