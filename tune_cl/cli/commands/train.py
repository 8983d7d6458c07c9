"""Examples:
  tune-cl train --data ../data/wikiqa --ranker conv_knrm
  tune-cl train --data docstrings --ranker bert --set ranker.model=tiny --set curriculum.pacing=root --output runs/root

SPACE is the configuration to start from; searched keys have the baseline's values. The same command again continues a
training that was stopped, from the last saved iteration."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from shlex import quote
from typing import Any

from trainables.core.errors import Interrupted
from tune_cl.api.training import train
from tune_cl.cli.options import DATA_HELP, add_overrides
from tune_cl.cli.tables import table
from tune_cl.process import program


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("space", nargs="?", metavar="SPACE", help="a shipped space or a YAML file")
    parser.add_argument("--data", help=DATA_HELP)
    parser.add_argument("--ranker", help="see tune-cl list rankers")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for the ranker, its run and its state (default: one for each configuration)",
    )
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    try:
        return train(options.space, options.data, options.ranker, options.overrides, options.output).document
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; saved iterations are kept. Go on with: {command(options)}") from None


def command(options: Namespace) -> str:
    """The command for the same training again."""
    parts = [] if options.space is None else [options.space]
    flags = {"--data": options.data, "--ranker": options.ranker, "--output": options.output}
    for flag, value in [*flags.items(), *(("--set", override) for override in options.overrides)]:
        parts += [] if value is None else [flag, str(value)]
    return " ".join([program("tune-cl"), "train", *map(quote, parts)])


def render(document: dict[str, Any]) -> str:
    lines = [
        f"best dev {document['metric']} {document['dev_best']:.4f} "
        f"at iteration {document['best_iteration']} of {len(document['dev'])}",
        "",
    ]
    if document["test"] is not None:
        lines += [table(["metric", "test"], document["test"].items()), ""]
    lines += [f"run     {document['run_file']}", f"ranker  {document['checkpoint']}"]
    return "\n".join(lines)
