"""Options as fields: the command line that asks for the same again, and the call in Python, mean the same."""

from __future__ import annotations

import inspect
import shlex
from argparse import ArgumentParser
from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.core.errors import ConfigError
from tune_cl.api.search import Search
from tune_cl.command_options import Options
from tune_cl.confirmation.request import EffectsRequest, PlanRequest, Request

NAMES = st.text(st.characters(codec="utf-8", exclude_characters=",\0", exclude_categories=["Z"]), min_size=1)
SEVERAL = st.lists(NAMES.filter(lambda name: not name.startswith("-")), unique=True, max_size=3).map(tuple)
NAME = st.none() | NAMES.filter(lambda name: not name.startswith("-"))
ASKED = st.builds(
    Request,
    top=st.none() | st.integers(1, 9),
    selection_seeds=st.none() | st.integers(1, 9),
    seeds=st.integers(1, 50),
    split=st.sampled_from(["test", "dev"]),
    correction=st.sampled_from(["holm", "bonferroni", "bh"]),
    each=st.booleans(),
    new_noise=st.booleans(),
    against=SEVERAL,
)
OF_TRIALS = st.builds(Request, trials=SEVERAL, max_seeds=st.integers(3, 99), until_settled=st.just(True))
OF_A_KEY = st.builds(Request, best_of=NAME, against_trial=NAME, unfinished=st.booleans())


@given(ASKED | OF_TRIALS | OF_A_KEY)
def test_a_command_line_asks_for_the_same_again(request: Request) -> None:
    parser = ArgumentParser()
    Request.add_to(parser)
    seeds = "max_seeds" if request.until_settled else "seeds"
    typed = shlex.split(request.words(always=(seeds, "split", "correction")))
    assert Request.of_command_line(parser.parse_args(typed)) == request
    assert Request(**request.changed) == request


@pytest.mark.parametrize(
    ("options", "method"), [(Request, Search.confirm), (EffectsRequest, Search.effects), (PlanRequest, Search.plan)]
)
def test_a_method_takes_the_options_of_its_command(options: type[Options], method: Any) -> None:
    taken = {name: one.default for name, one in inspect.signature(method).parameters.items()}
    asked = {one.name: None if one.default is MISSING else one.default for one in fields(options)}
    assert {name: taken[name] for name in asked} == asked


def test_a_zero_is_given() -> None:
    parser = ArgumentParser()
    Request.add_to(parser)
    with pytest.raises(ConfigError, match="below 1"):
        Request.of_command_line(parser.parse_args(["--seeds", "0"]))
