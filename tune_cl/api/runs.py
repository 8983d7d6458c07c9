"""Rankings from Python, without a search: `tune_cl.evaluate` and `tune_cl.baseline`."""

from __future__ import annotations

from pathlib import Path

from trainables.data.forms.frames import Data, as_source
from trainables.evaluation.runs import evaluate as evaluate
from tune_cl.api.session import working
from tune_cl.experiment.load import Overrides
from tune_cl.run_baseline import BaselineRequest, BaselineRun, rank_baseline


def baseline(
    data: Data,
    name: str = "bm25",
    split: str = "test",
    tune: bool = False,
    optimize_on_test: bool = False,
    retrieve: bool = False,
    output: str | Path | None = None,
    overrides: Overrides | None = None,
    progress: bool = True,
) -> BaselineRun:
    """Ranks a split of the data without training: by bm25, sdm, embedding, or the judgments themselves (oracle).

    data              a folder, a name or tables, as for `tune_cl.run`
    tune              takes the parameters that are best on dev
    optimize_on_test  takes those that are best on test: a bound, not a fair baseline
    retrieve          ranks the whole collection in place of the candidates
    output            where the TREC run is written; None: nowhere
    overrides         dotted keys with their values, e.g. {"data.bm25.k1": 1.2}

    Its `run` is what `tune_cl.evaluate` takes. Raises ConfigError or DataError for what cannot be done.
    """
    request = BaselineRequest(
        name=name, split=split, tune=tune, optimize_on_test=optimize_on_test, retrieve=retrieve,
        output=None if output is None else Path(output),
    )  # fmt: skip
    with working(progress):
        return rank_baseline(request, as_source(data), overrides or {}, writes=output is not None)
