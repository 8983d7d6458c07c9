"""Example: tune-cl score docstrings context_words --output difficulty.tsv

Writes one line an instance: query id, document id(s), difficulty (higher = harder). An instance is a query with one
of its relevant documents (its negatives are drawn in training); --set training.negatives=all lists every candidate."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config import validated
from trainables.curriculum.scoring import SCORINGS, Scored, difficulty
from trainables.data import load_data
from trainables.data.columns import RankingData, Split
from trainables.data.instances import Instances, make_instances
from trainables.errors import DataError, Problem
from trainables.evaluation.files import write_text
from trainables.training.losses import PAIRWISE
from tune_cl.commands.settings import add_overrides, overridden


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("scoring", metavar="SCORING", help=", ".join(SCORINGS))
    parser.add_argument("--split", default="train", choices=["train", "dev", "test"])
    parser.add_argument("--output", type=Path, help="TSV file (default: DATA.SCORING.SPLIT.tsv)")
    add_overrides(parser)
