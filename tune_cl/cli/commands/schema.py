"""Example: tune-cl schema > schema.json

With this first line in a search space beside it, editors that know YAML complete and check its keys:

    # yaml-language-server: $schema=schema.json"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from tune_cl.experiment.space_schema import space_schema


def add_arguments(parser: ArgumentParser) -> None:
    """It has none of its own."""


def execute(options: Namespace) -> dict[str, Any]:
    return space_schema()


def render(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
