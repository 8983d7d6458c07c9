"""Examples:
  tune-cl cluster aws > cluster.yaml
  tune-cl cluster local > cluster.local.yaml

Prints a cluster file to fill in; the documentation has the next steps (Clusters). aws and local are for `ray up` in a
checkout, which is copied to the nodes; kuberay-storage and then kuberay are for `kubectl apply`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from tune_cl.templates import TEMPLATES


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help=", ".join(TEMPLATES.entries))


def execute(options: Namespace) -> dict[str, Any]:
    path = TEMPLATES[options.kind]
    return {"file": path.name, "text": path.read_text(encoding="utf-8")}


def render(document: dict[str, Any]) -> str:
    return document["text"].rstrip("\n")
