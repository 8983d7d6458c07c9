"""Runs of queries: evaluate compares them, baseline makes those that need no training."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainables.core.prose import say
from trainables.evaluation.metrics import METRIC_FORMS
from trainables.evaluation.runs import CORRECTION, USUAL, Comparison, Evaluation, evaluate
from trainables.evaluation.significance import CORRECTIONS
from tune_cl.cli import Command
from tune_cl.cli.options import add_overrides
from tune_cl.cli.tables import table
from tune_cl.command_options import DATA_HELP, Options, option

if TYPE_CHECKING:
    from tune_cl.run_baseline import BaselineRun


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Options):
    """Options of `tune-cl evaluate`, arguments of `tune_cl.evaluate`."""

    metrics: str = option(",".join(USUAL), f"separated by commas; {METRIC_FORMS}")
    relevance_level: int = option(1, "lowest relevant grade", "N")
    correction: str = option(CORRECTION, f"{', '.join(CORRECTIONS)}")


class EvaluateCommand(Command):
    """Example: tune-cl evaluate qrels.test.txt bm25.run ranker.run --metrics map,ndcg@20 --relevance-level 2

    Evaluates TREC run files as trec_eval does, averaged over all queries of the qrels (trec_eval -c). Each run from the
    second on is compared with the first by a paired t-test over queries."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("qrels", metavar="QRELS", help="TREC qrels file, plain or .gz")
        parser.add_argument("runs", metavar="RUN", nargs="+", help="TREC run files; the first is the reference")
        EvaluateOptions.add_to(parser)

    def execute(self, options: Namespace) -> Evaluation:
        found = evaluate(options.qrels, options.runs, **EvaluateOptions.given(options))
        if options.correction and len(options.runs) == 1:
            say("note: without effect on one run: --correction")
        return found

    def render(self, document: Evaluation) -> str:
        """The means, then each comparison with the first run."""
        first, runs = document.runs[0], document.runs
        parts = [table(["run", *first.metrics], ([one.run, *one.metrics.values()] for one in runs))]
        parts += [
            f"{one.run} lacks {one.queries_missing} judged queries; they count 0."
            for one in runs
            if one.queries_missing
        ]
        parts += [
            f"{one.run} against {first.run}, paired t-test over queries:\n{_comparison(one.vs_first)}"
            for one in runs
            if one.vs_first is not None
        ]
        return "\n\n".join(parts)


def _comparison(tests: Mapping[str, Comparison]) -> str:
    columns = ["metric", "difference", "95 % from", "to", "t", "p", "p adjusted"]
    rows = (
        [name, test.difference, *test.ci95, test.t, _p(test.p), _p(test.p_adjusted)] for name, test in tests.items()
    )
    return table(columns, rows)


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


class BaselineCommand(Command):
    """Examples:
      tune-cl baseline ../data/wikiqa bm25 --tune
      tune-cl baseline ../data/nfcorpus sdm --retrieve --tune --set metric=ndcg@10

    Ranks the split's candidates, or, with --retrieve and where the candidates themselves were retrieved by BM25, the
    whole collection to a depth of data.top_k. --tune takes the parameters that are best on dev by `metric`, --optimize-
    on-test those that are best on test: an upper bound, not a fair baseline. `embedding` has nothing to tune;
    pairs to classify it parts by the threshold that is best on dev, with one class on either side. Parameters are set
    with --set data.bm25.k1, data.bm25.b, ranker.vectors and ranker.vector_size."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("data", metavar="DATA", help=DATA_HELP)
        parser.add_argument("baseline", metavar="BASELINE", help="bm25, sdm, embedding or oracle")
        from tune_cl.run_baseline import BaselineRequest

        BaselineRequest.add_to(parser)
        add_overrides(parser)

    def execute(self, options: Namespace) -> BaselineRun:
        from tune_cl.run_baseline import BaselineRequest, rank_baseline

        request = BaselineRequest(name=options.baseline, **BaselineRequest.given(options))
        return rank_baseline(request, options.data, options.overrides, writes=True)

    def render(self, document: BaselineRun) -> str:
        how = f"{document.setting}: {', '.join(f'{key} {value}' for key, value in document.params.items())}"
        if tuned := document.chosen:
            where = "dev" if document.setting == "tuned" else "test itself: a bound, not a fair baseline"
            how += f" (best {tuned.metric} {tuned.value:.4f} of {tuned.points} settings on {where})"
        head = f"{document.queries} {document.split} queries, ranked: {document.ranked}"
        metrics = table(["metric", document.split], document.metrics.items())
        return "\n\n".join([f"{head}\n{how}", metrics, f"run written to {document.run_file}"])
