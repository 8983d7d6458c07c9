"""What the commands print of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from trainables.core.plugins import plugin_options
from trainables.core.prose import counted, duration, short, wrapped
from trainables.evaluation.metrics import in_words
from tune_cl.cli.tables import table
from tune_cl.process import program
from tune_cl.verdict.figures import cut, interval_words, p_value

if TYPE_CHECKING:
    from tune_cl.api.baseline import Ranking
    from tune_cl.api.check import SpaceCheck
    from tune_cl.api.data import DataFacts
    from tune_cl.api.evaluate import Evaluation
    from tune_cl.api.listing import Part, SearchEntry
    from tune_cl.api.rerank import Reranked
    from tune_cl.api.score import Difficulties
    from tune_cl.api.search import Search
    from tune_cl.api.train import Training
    from tune_cl.history.search_folder import SearchFolder
    from tune_cl.results import Effects, Plan, SearchResult, Verdict, Written

CHECKPOINT = "checkpoint"  # in the folder of a function's best iteration
FILES = 12  # named, of those that data is read from
WIDTH = 100  # characters of an example's text


# -- searches, verdicts and effects --------------------------------------------------------------------------------


def search_text(search: Search) -> str:
    return result_text(search.result, search.search_folder, search.address)


def result_text(result: SearchResult, folder: SearchFolder, address: str | None = None) -> str:
    """What a search has come to, then the commands to run next. `address`: the Ray cluster that it ran on."""
    from tune_cl.report.story import of_search

    lines = {}
    if result.best_curriculum:
        lines["Test it:"] = folder.command("confirm", address)
        if result.effects:
            pairs = "All curricula:" if result.over_curricula else "All pairs:"
            lines[pairs] = f"{folder.command('effects', address)} --seeds 2"
        lines["How many seeds?"] = f"{folder.command('confirm')} --plan"
    lines["Read the report:"] = folder.command("report")
    uri = result.tracking_uri
    lines["Compare the trials:"] = uri if uri.startswith("http") else f"mlflow ui --backend-store-uri {quote(uri)}"
    if result.checkpoint and folder.objective:
        lines["Best checkpoint:"] = f"{result.checkpoint}/{CHECKPOINT}"
    elif result.checkpoint:
        rerank = f"{program('tune-cl')} rerank {quote(result.checkpoint)} --data DATA"
        lines["Use the best ranker:"] = f"{rerank}{plugin_options()}"
    commands = [f"{what:<22}{line}" for what, line in lines.items()]
    return "\n".join([story_text(of_search(result)), "", *commands])


def story_text(parts: Iterable[Any]) -> str:
    """Parts of a story: under each title its sentences, wrapped, and its table."""
    blocks = []
    for part in parts:
        lines = [part.title, *map(wrapped, part.sentences)]
        if part.table:
            lines += ["", table(part.table.columns, part.table.rows)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def confirm_text(result: Verdict | Plan) -> str:
    from tune_cl.history.search_folder import search_folder_of
    from tune_cl.report.story import of_verdict
    from tune_cl.results import Plan

    if isinstance(result, Plan):
        return plan_text(result)
    folder = replace(search_folder_of(result.storage, result.search), tracking_uri=result.tracking_uri)
    return f"{story_text(of_verdict(result))}\n\nRead the report:  {folder.command('report')}"


def plan_text(plan: Plan) -> str:
    question = (
        f"The smallest gain in {in_words(plan.metric)} over all opponents that a verdict finds with a power of .8, on "
        f"{plan.queries} queries; the power for a gain of .02; and the time of all trainings, one after another. "
        f"Variances from {plan.source}."
    )
    rows = []
    for row in plan.rows:
        hours = None if row.hours is None else f"{row.hours:.2g}"
        rows.append((row.seeds, row.detectable, f"{row.power:.2f}", row.trainings, hours))
    return f"{wrapped(question)}\n\n{table(['seeds', 'gain', 'power for .02', 'trainings', 'hours'], rows)}"


def effects_text(effects: Effects) -> str:
    from tune_cl.space.wording import setting

    lines = [*map(wrapped, effects.sentences)]
    rows = []
    for one in effects.by_value:
        rows.append((setting(one.key, one.value), f"{one.effect:+.4f} {interval_words(one.ci95)}", one.pairs))
    return "\n".join([*lines, "", table(["value", "mean effect [95 %]", "pairs"], rows)] if rows else lines)


def report_text(written: Written) -> str:
    files = written.files or {"report": written.output}
    return "\n".join(f"{name}  {path}" for name, path in files.items())


# -- trainings, rankings and measures ------------------------------------------------------------------------------


def train_text(training: Training) -> str:
    at = f"at iteration {training.best_iteration} of {len(training.dev)}"
    lines = [f"best dev {training.metric} {training.dev_best:.4f} {at}", ""]
    if training.test:
        lines += [table(["metric", "test"], training.test.items()), ""]
    return "\n".join([*lines, f"run     {training.run_file}", f"ranker  {training.checkpoint}"])


def rerank_text(result: Reranked) -> str:
    precision = f" ({result.precision})" if result.precision else ""
    if result.run_file:
        return f"written to {result.run_file}{precision}"
    rows = [[row.doc, row.score, cut(row.text, WIDTH)] for row in result.ranking]
    return table(["doc", f"score{precision}", "text"], rows)


def baseline_text(ranking: Ranking) -> str:
    how = ", ".join(f"{key} {value}" for key, value in ranking.params.items())
    if chosen := ranking.chosen:
        how += f" (best {chosen.metric} {chosen.value:.4f} of {chosen.points} settings on dev)"
    lines = [
        f"{ranking.queries} {ranking.split} queries; {how}",
        table(["metric", ranking.split], ranking.metrics.items()),
    ]
    return "\n\n".join([*lines, f"run written to {ranking.run_file}"] if ranking.run_file else lines)


def evaluate_text(evaluation: Evaluation) -> str:
    """The means, then each comparison with the first run."""
    first, *others = evaluation.runs
    parts = [table(["run", *first.metrics], ([run.run, *run.metrics.values()] for run in evaluation.runs))]
    for run in evaluation.runs:
        if run.queries_missing:
            parts.append(f"{run.run} lacks {run.queries_missing} judged queries; they count 0.")
    for run in others:
        rows = []
        for name, test in (run.vs_first or {}).items():
            p = p_value(test.p), p_value(test.p_adjusted)
            rows.append([name, test.difference, interval_words(test.ci95), test.t, *p])
        shown = table(["metric", "difference", "95 % CI", "t", "p", "p adjusted"], rows)
        parts.append(f"{run.run} against {first.run}, paired t-test over queries:\n{shown}")
    return "\n\n".join(parts)


def score_text(result: Difficulties) -> str:
    return table(["difficulty", ""], result.model_dump().items())


# -- before a search -----------------------------------------------------------------------------------------------


def check_text(check: SpaceCheck) -> str:
    size = "continuous" if check.combinations is None else f"{check.combinations:,} combinations"
    shared = f"over {', '.join(check.shared)}" if check.shared else "not tuned"
    default = []
    for key, value in check.baseline.items():
        if check.over_curricula or not key.startswith("curriculum."):  # else it turns off what no trial has
            default.append(f"{key} {short(value)}")
    before = check.pretraining_iterations + check.teacher_iterations
    rows: dict[str, object] = {
        "trains": f"{', '.join(check.rankers)} on {check.data or 'its own data'}, for {check.metric} on dev",
        "searches": f"{counted(check.parameters, 'key')} ({check.conditional} conditional, {size})",
        "searcher, scheduler": f"{check.searcher}, {check.scheduler}",
        "trials": f"{check.trials}, of at most {counted(check.max_iterations, 'iteration')} each",
        "plain trials": f"{check.phases.plain} with {check.plain}, {shared}",
        "curricula" if check.over_curricula else "other trials": check.phases.curricula,
        "published ones": check.points,
        "further seeds": check.phases.seeds,
        "plain, default": f"{', '.join(default) or 'as the configuration is by default'}; the first trial",
        "before the first trial": f"{counted(before, 'iteration')} of pre-training and teachers" if before else "",
    }
    if check.hours_at_most is not None:
        seconds = f"{check.seconds_per_iteration:.3g} s an iteration"
        rows["time here"] = f"{duration(check.hours_at_most * 3600)}, {check.at_a_time} trials at a time, {seconds}"
    if check.gpu_hours_at_most:
        rows["GPU"] = f"{check.gpu_hours_at_most:.3g} hours"
    return table([f"space {check.space}", ""], [row for row in rows.items() if row[1]])


def data_text(facts: DataFacts) -> str:
    features = f", {facts.features} features" if facts.features else ""
    files = [*facts.files[:FILES], *(["..."] if len(facts.files) > FILES else [])]
    lines = [f"{facts.data}: {facts.task}, {facts.documents:,} documents{features}"]
    lines += [f"read as {facts.form} ({facts.recognised_by})", f"from {', '.join(files)}", "", _splits(facts), ""]
    if facts.shared:
        rows = [[" and ".join(one.splits), one.queries, one.documents, one.document_texts] for one in facts.shared]
        lines += [table(["shared by", "queries", "documents", "document texts"], rows), ""]
    lines += [f"note: {note}" for note in facts.notes]
    lines += [f"warning: {warning}" for warning in facts.warnings]
    for split, examples in facts.examples.items():
        for example in examples:
            lines.append(f"\n{split} {example.query}: {cut(example.utterances[-1], WIDTH)}")
            for candidate in example.candidates:
                mark = candidate.grade if candidate.label is None else candidate.label
                lines.append(f"  {mark:>2}  {candidate.document}: {cut(candidate.text, WIDTH)}")
    return "\n".join(lines)


def _splits(facts: DataFacts) -> str:
    """A table of the splits: rows of figures for a ranking, a row each for a classification."""
    splits: dict[str, Any] = dict(facts.splits)
    if facts.task == "classification":
        rows = [[name, split.queries, *split.classes.values()] for name, split in splits.items()]
        return table(["split", "pairs", *next(iter(splits.values())).classes], rows)
    figures: dict[str, Callable[[Any], str]] = {
        "queries": lambda split: f"{split.queries:,}",
        "candidates": lambda split: f"{split.candidates:,}",
        "candidates a query": lambda split: f"{split.group_sizes.mean:.1f}",
        "judged candidates": lambda split: f"{split.judged_share:.1%}",
        "relevant a query": lambda split: f"{split.positives_per_query:.2f}",
        "queries without relevant": lambda split: f"{split.queries_without_positive:,}",
        "relevant, not candidates": lambda split: f"{split.positives_not_candidates:,}",
    }
    rows = [[name, *map(figure, splits.values())] for name, figure in figures.items()]
    return table(["", *splits], rows)


def list_text(rows: list[Part] | list[SearchEntry]) -> str:
    if not rows:
        return "no searches here yet; tune-cl run starts one"
    return table(list(type(rows[0]).model_fields), [row.model_dump().values() for row in rows])


TEXTS: dict[str, Callable[[Any], str]] = {
    "run": search_text,
    "resume": search_text,
    "confirm": confirm_text,
    "effects": effects_text,
    "report": report_text,
    "train": train_text,
    "rerank": rerank_text,
    "baseline": baseline_text,
    "evaluate": evaluate_text,
    "score": score_text,
    "check": check_text,
    "data": data_text,
    "list": list_text,
}
