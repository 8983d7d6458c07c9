"""Options that several commands share, and the configuration they build."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from trainables.config import TrainingRun, flatten, unflatten, validated
from trainables.errors import ConfigError, Problem

DEFAULT_STORAGE = "./tune_cl_runs"


def add_overrides(parser: ArgumentParser) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
                        help="override a configuration key; VALUE is YAML; repeatable")


def add_storage(parser: ArgumentParser) -> None:
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=f"where state lives (default {DEFAULT_STORAGE})")
