"""The cluster files, linked here from elsewhere in the repository so that the wheel contains them."""

from __future__ import annotations

from pathlib import Path

from trainables.core.registry import Entry, Registry

_HERE = Path(__file__).parent
TEMPLATES: Registry[Path] = Registry(
    "KIND",
    Entry("aws", _HERE / "cluster.yaml", "ray up: CPU head, GPU workers on spot, else on demand", "Ray"),
    Entry("local", _HERE / "cluster.local.yaml", "ray up: your own machines over SSH", "Ray"),
    Entry("kuberay-storage", _HERE / "kuberay-storage.yaml", "kubectl apply: its volume and MLflow", "KubeRay"),
    Entry("kuberay", _HERE / "kuberay-rayjob.yaml", "kubectl apply: a search as a RayJob", "KubeRay"),
)
