"""The dense layers of a SentenceTransformer, between its pooling and its normalisation: linear, then an activation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

INPUT = "sentence_embedding"  # what pooling gives; a layer may read others, such as each token's vector


class DenseLayer(nn.Module):
    """Vectors [N, in] to [N, out]. `config`: as sentence-transformers writes it. Its files name tensors as this module
    does. Raises ValueError for a layer that does something else."""

    def __init__(self, config: Mapping[str, Any]):
        super().__init__()
        given, out = int(config["in_features"]), int(config["out_features"])
        if {config.get("module_input_name", INPUT), config.get("module_output_name") or INPUT} != {INPUT}:
            raise ValueError("reads or writes something else than the vector of a text")
        self.linear = nn.Linear(given, out, bias=config.get("bias", True))
        self.activation_function = _activation(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
        self.residual: nn.Module | None = None
        if config.get("use_residual"):
            self.residual = nn.Identity() if given == out else nn.Linear(given, out, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        out = self.activation_function(self.linear(vectors))
        return out if self.residual is None else out + self.residual(vectors)


def _activation(name: str) -> nn.Module:
    """An activation of PyTorch by its full name; no other class, because a folder of others could name any code."""
    kind = getattr(nn, name.rpartition(".")[2], None) if name.startswith("torch.nn.") else None
    if not (isinstance(kind, type) and f"{kind.__module__}.{kind.__name__}" == name and issubclass(kind, nn.Module)):
        raise ValueError(f"has the activation {name[:80]!r}, which is none of PyTorch's")
    return kind()
