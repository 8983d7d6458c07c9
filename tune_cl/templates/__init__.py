"""The cluster files, linked here from elsewhere in the repository so that the wheel contains them."""

from __future__ import annotations

from pathlib import Path

from trainables.core.registry import Entry, Registry

_HERE = Path(__file__).parent
_GUIDE = "docs/how-to/cluster.md"

TEMPLATES: Registry[Path] = Registry(
    "KIND",
    Entry("aws", _HERE / "cluster.yaml", "ray up: CPU head, GPU workers on spot, else on demand", _GUIDE),
    Entry("local", _HERE / "cluster.local.yaml", "ray up: your own machines over SSH", _GUIDE),
    Entry("kuberay-storage", _HERE / "kuberay-storage.yaml", "kubectl apply: its volume and MLflow", _GUIDE),
    Entry("kuberay", _HERE / "kuberay-rayjob.yaml", "kubectl apply: a search as a RayJob", _GUIDE),
)
