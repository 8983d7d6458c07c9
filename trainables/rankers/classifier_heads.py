"""Heads of cross-encoders: as `bert` computes them, and as the sequence classifiers of transformers do.

A sequence classifier reads [CLS] through `score(norm(activation(dense(cls))))`, with another activation, other names
and mostly no norm in each architecture (`LAYOUTS`). Ours is this form with tanh (`ranker.head: classification`), or a
linear layer alone (`cls`). The latter is written as the form above whose dense layer and activation leave [CLS] as it
is:

- tanh: the dense layer scales by 2^-12, where tanh(x) is x to float32's precision, and the last layer scales back;
- relu and gelu: the dense layer adds more than what [CLS], the output of a LayerNorm, can lack from 8 on, where both
  leave a number as it is; the last bias takes it off again;
- where the configuration names the activation, it is "linear". ModernBERT's norm is undone by what it repeats: [CLS]
  is a normalised vector times the weights of the encoder's last norm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from trainables.rankers.folder import OURS

SMALL = 2.0**-12  # a power of two scales without rounding
LINEAR, TANH = "linear", "tanh"


@dataclass(frozen=True)
class Layout:
    """Names in an architecture's sequence classifier. `activation`: which, or the key of config.json that names it."""

    encoder: str
    dense: str
    score: str
    activation: str
    norm: str | None = None

    def activation_in(self, config: Mapping[str, Any]) -> str:
        return config[self.activation] if self.activation_is_open else self.activation

    @property
    def activation_is_open(self) -> bool:
        return self.activation not in ACT2FN


_ROBERTA = Layout("roberta", "classifier.dense", "classifier.out_proj", TANH)
LAYOUTS = {
    "albert": Layout("albert", "albert.pooler", "classifier", TANH),
    "bert": Layout("bert", "bert.pooler.dense", "classifier", TANH),
    "camembert": _ROBERTA,
    "deberta-v2": Layout("deberta", "pooler.dense", "classifier", "pooler_hidden_act"),
    "distilbert": Layout("distilbert", "pre_classifier", "classifier", "relu"),
    "electra": Layout("electra", "classifier.dense", "classifier.out_proj", "gelu"),
    "modernbert": Layout("model", "head.dense", "classifier", "classifier_activation", "head.norm"),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}


@dataclass
class HeadLayers:
    """What comes between [CLS] and the scores: `dense`, `activation` and `norm` (each may be missing), then `score`."""

    dense: nn.Linear | None
    activation: str
    norm: nn.LayerNorm | None
    score: nn.Linear


def layers_of(classifier: nn.Module, config: Mapping[str, Any]) -> HeadLayers:
    """The head of one of transformers' sequence classifiers. A linear layer alone, if that is what `written` wrote."""
    layout = LAYOUTS[config["model_type"]]
    norm = classifier.get_submodule(layout.norm) if layout.norm else None
    dense, score = classifier.get_submodule(layout.dense), classifier.get_submodule(layout.score)
    assert isinstance(dense, nn.Linear) and isinstance(score, nn.Linear)
    assert norm is None or isinstance(norm, nn.LayerNorm)
    if not is_linear(config):
        return HeadLayers(dense, layout.activation_in(config), norm, score)
    with torch.no_grad():
        if layout.activation == TANH:
            score.weight.mul_(SMALL)
        elif not layout.activation_is_open:
            score.bias.add_((score.weight.double() @ dense.bias.double()).float())
    return HeadLayers(None, LINEAR, None, score)


def is_linear(config: Mapping[str, Any]) -> bool:
    """Whether a config.json says that the head is a linear layer in the form that `written` gives it."""
    return (config.get(OURS) or {}).get("head") == LINEAR


def stays_linear(classifier: nn.Module, config: Mapping[str, Any]) -> bool:
    """Whether no other training has changed the dense layer that `written` wrote."""
    weight = classifier.get_submodule(LAYOUTS[config["model_type"]].dense).get_parameter("weight")
    return torch.equal(weight, torch.diag(weight.diagonal()))


def activation_of(name: str) -> Callable[[Tensor], Tensor]:
    """torch.tanh itself for tanh, since a module would be another operation in old trainings' graphs."""
    return torch.tanh if name == TANH else ACT2FN[name]


def written(layers: HeadLayers, layout: Layout, encoder: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The head's tensors under the names of the layout, and what its config.json must say. None if the architecture has
    no form that gives the same scores."""
    score = {f"{layout.score}.{name}": tensor for name, tensor in layers.score.state_dict().items()}
    if layers.dense is None:
        tensors, fields = _linear_alone(layers.score, layout, encoder)
        return tensors, fields | {OURS: {"head": LINEAR}}
    if layout.activation_is_open:
        fields = {layout.activation: layers.activation}
    elif layout.activation == layers.activation:
        fields = {}
    else:
        return None
    if (layout.norm is None) != (layers.norm is None):
        return None
    parts = {layout.dense: layers.dense} | ({layout.norm: layers.norm} if layout.norm and layers.norm else {})
    tensors = {f"{part}.{name}": t for part, layer in parts.items() for name, t in layer.state_dict().items()}
    return tensors | score, fields


def _linear_alone(score: nn.Linear, layout: Layout, encoder: nn.Module) -> tuple[dict[str, Tensor], dict[str, Any]]:
    weight, bias = score.weight.detach(), score.bias.detach()
    size = weight.shape[1]
    dense, shift = torch.eye(size), torch.zeros(size)
    fields: dict[str, Any] = {}
    norm: dict[str, Tensor] = {}
    if layout.norm:
        norm = {
            f"{layout.norm}.{name}": tensor.detach().clone() for name, tensor in last_norm(encoder).state_dict().items()
        }
        gain = norm[f"{layout.norm}.weight"]
        inverse = torch.where(gain == 0, torch.zeros_like(gain), 1 / gain)
        dense, shift = torch.diag(inverse), -inverse * norm.get(f"{layout.norm}.bias", shift)
        fields = {"classifier_bias": True, "classifier_pooling": "cls"}
    if layout.activation_is_open:
        fields = fields | {layout.activation: LINEAR}
    elif layout.activation == TANH:
        dense, weight = dense * SMALL, weight / SMALL
    else:
        shift = _most(last_norm(encoder)) + 8
        bias = (bias.double() - weight.double() @ shift.double()).float()
    tensors = {
        f"{layout.dense}.weight": dense,
        f"{layout.dense}.bias": shift,
        f"{layout.score}.weight": weight,
        f"{layout.score}.bias": bias,
    }
    return tensors | norm, fields


def last_norm(encoder: nn.Module) -> nn.LayerNorm:
    """The layer whose output the encoder's is."""
    return [module for module in encoder.modules() if isinstance(module, nn.LayerNorm)][-1]


def _most(norm: nn.LayerNorm) -> Tensor:
    """The largest values, without sign, that a LayerNorm over D numbers can give, float32 [D]: one of D numbers of mean
    0 and variance 1 is at most sqrt(D - 1)."""
    size = norm.weight.numel()
    return norm.weight.detach().abs() * size**0.5 + norm.bias.detach().abs()


def has_layout(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is of a sequence classifier whose head `layers_of` gives."""
    return config["model_type"] in LAYOUTS and config.get("classifier_pooling", "cls") == "cls"


def classifier_problem(config: Mapping[str, Any], labels: tuple[int, ...]) -> str | None:
    """What keeps a config.json from being that of a sequence classifier with so many labels."""
    names = config.get("architectures") or []
    if not any(name.endswith("ForSequenceClassification") for name in names):
        return "is not a cross-encoder: its config.json names no sequence classification"
    count = len(config.get("id2label") or "12")
    return None if count in labels else f"has {count} labels, not {' or '.join(map(str, labels))}"
