"""Which weights of a pretrained Transformer a training changes, and how fast: low-rank adapters, and learning rates by
layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import nn
from transformers import PreTrainedModel

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.ranker import RankerModule
from trainables.rankers.settings import LoraSettings

if TYPE_CHECKING:
    from peft import LoraModel

TARGETS = "ranker.lora.targets"


def target_names(model: nn.Module, settings: LoraSettings) -> list[str]:
    """The full names of the linear layers that get an adapter. Raises ConfigError for a target that names none."""
    linear = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if settings.targets is None:
        return linear
    missing = [target for target in settings.targets if not any(_is_named(name, target) for name in linear)]
    if missing:
        there = dict.fromkeys(name.rpartition(".")[2] for name in linear)
        wrong = f"no linear layer of the model is named {', '.join(map(repr, missing))}"
        raise ConfigError(Problem(TARGETS, wrong, f"some of {', '.join(there)}; null: all"))
    return [name for name in linear if any(_is_named(name, target) for target in settings.targets)]


def _is_named(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


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


def _adapters(model: PreTrainedModel, settings: LoraSettings) -> LoraModel:
    from peft import LoraConfig, LoraModel  # here: few need it, and it takes a second

    alpha = 2 * settings.rank if settings.alpha is None else settings.alpha
    # Whole numbers are all that the type of `lora_alpha` allows, but it is only divided by the rank.
    config = LoraConfig(r=settings.rank, lora_alpha=alpha, target_modules=target_names(model, settings))  # pyright: ignore[reportArgumentType]
    return LoraModel(model, config, "default")


def require_changes(model: PreTrainedModel, settings: LoraSettings, decay: float) -> None:
    """Raises ConfigError for a model without the layers that a training shall change."""
    target_names(model, settings)
    if decay < 1:
        layer_depths(model, ())


def layer_depths(model: PreTrainedModel, names: Iterable[str]) -> dict[str, int]:
    """For each parameter, by name, how many layers lie above its own: 0 in the last layer and behind it, L in the
    embeddings of a model of L layers. Raises ConfigError for layers that share their weights, as ALBERT's."""
    count = model.config.num_hidden_layers
    lists = [name for name, part in model.named_modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    if not lists:
        wrong = "the layers of the model share their weights"
        raise ConfigError(Problem("ranker.layer_decay", wrong, "1, or a model whose layers have weights of their own"))
    return {name: _depth(name, f"{lists[0]}.", count) for name in names}


def _depth(name: str, layers: str, count: int) -> int:
    if name.startswith(layers):
        return count - 1 - int(name.removeprefix(layers).partition(".")[0])
    return count if name.startswith(("embed", "word_embed")) else 0


def decayed_groups(model: PreTrainedModel, lr: float, decay: float) -> list[dict[str, Any]]:
    """Optimiser groups of a model's trained parameters: `lr` in the last layer, and `decay` times as much in each layer
    below (Howard & Ruder 2018, ULMFiT, section 3.2; Clark et al. 2020, ELECTRA, appendix A). With decay 1, one."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if decay == 1:
        return [{"params": list(trained.values()), "lr": lr}]
    depths = layer_depths(model, trained)
    groups = [[trained[name] for name in trained if depths[name] == depth] for depth in sorted({*depths.values()})]
    rates = [lr * decay**depth for depth in sorted({*depths.values()})]
    return [{"params": group, "lr": rate} for group, rate in zip(groups, rates, strict=True)]
