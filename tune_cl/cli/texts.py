"""What the commands print of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from shlex import quote
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

from trainables.core.plugins import plugin_options
from trainables.core.prose import counted, duration, wrapped
from trainables.evaluation.metrics import in_words
from tune_cl.cli.tables import table
from tune_cl.process import program
from tune_cl.verdict.figures import cut, interval_words, p_value

if TYPE_CHECKING:
    from tune_cl.api.baseline import Ranking
    from tune_cl.api.check import SpaceCheck
    from tune_cl.api.data import DataFacts, Example
    from tune_cl.api.evaluate import Evaluation
    from tune_cl.api.listing import Part, SearchEntry
    from tune_cl.api.rerank import Reranked
    from tune_cl.api.score import Difficulties, ScoredExample
    from tune_cl.api.search import Search
    from tune_cl.api.train import Training
    from tune_cl.history.search_folder import SearchFolder
    from tune_cl.results import Effects, Plan, SearchResult, Verdict, Written

CHECKPOINT = "checkpoint"  # in the folder of a function's best iteration
FILES = 12  # named, of those that data is read from
WIDTH = 100  # characters of an example's text


# -- searches, verdicts and effects --------------------------------------------------------------------------------


def search_text(search: Search) -> str:
    return result_text(search.result, search.search_folder, search.address, search.view)


def result_text(result: SearchResult, folder: SearchFolder, address: str | None = None, view: str | None = None) -> str:
    """What a search has come to, then the commands to run next. `address`: the Ray cluster that it ran on; `view`: the
    page of its trials on a server of MLflow."""
    from tune_cl.report.story import of_search

    return "\n".join([story_text(of_search(result)), "", *_next(result, folder, address, view or "")])


def story_text(parts: Iterable[Any]) -> str:
    """Parts of a story: under each title its sentences, wrapped, and its table."""
    blocks = []
    for part in parts:
        lines = [part.title, *map(wrapped, part.sentences)]
        if part.table:
            lines += ["", table(part.table.columns, part.table.rows)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _next(result: SearchResult, folder: SearchFolder, address: str | None, view: str) -> list[str]:
    lines = {}
    if result.best_curriculum:
        lines["Test it:"] = folder.command("confirm", address)
        if result.effects:
            pairs = "All curricula:" if result.over_curricula else "All pairs:"
            lines[pairs] = f"{folder.command('effects', address)} --seeds 2"
        lines["How many seeds?"] = f"{folder.command('confirm')} --plan"
    lines["Read the report:"] = folder.command("report")
    uri = result.tracking_uri
    page = f"{uri.rstrip('/')}/{view}"  # of a server; a database has none
    lines["Compare the trials:"] = page if uri.startswith("http") else f"mlflow ui --backend-store-uri {quote(uri)}"
    by_function = bool(folder.objective)
    lines["Best checkpoint:" if by_function else "Use the best ranker:"] = _use(result, by_function)
    return [f"{what:<22}{line}" for what, line in lines.items()]


def _use(result: SearchResult, by_function: bool) -> str:
    """The command that applies the best ranker, or why none was saved. Of a user's function: its best checkpoint."""
    from trainables.rankers import RANKERS

    ranker, best = result.checkpoint, result.trial(result.best)
    if by_function:
        return f"{ranker}/{CHECKPOINT}" if ranker else "not saved: the best iteration was reported without a checkpoint"
    if not ranker:
        return f"not saved: no checkpoint of {result.best} could be read"
    params = result.configuration | (best.params if best else {})
    name = params.get("ranker.name", result.ranker)
    no_texts = (name in RANKERS and RANKERS[name].reads == "features") or params.get("ranker.add_first_stage")
    source = "--data FOLDER" if no_texts else "--query TEXT --documents FILE"
    return f"{program('tune-cl')} rerank {quote(ranker)} {source}{plugin_options()}"


def confirm_text(result: Verdict | Plan) -> str:
    from tune_cl.results import Plan

    return plan_text(result) if isinstance(result, Plan) else verdict_text(result)


def verdict_text(verdict: Verdict) -> str:
    from tune_cl.history.search_folder import search_folder_of
    from tune_cl.report.story import of_verdict

    folder = replace(search_folder_of(verdict.storage, verdict.search), tracking_uri=verdict.tracking_uri)
    return f"{story_text(of_verdict(verdict))}\n\nRead the report:  {folder.command('report')}"


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
    for effect in effects.by_value:
        mean = f"{effect.effect:+.4f} {interval_words(effect.ci95)}"
        rows.append((setting(effect.key, effect.value), mean, effect.pairs))
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
    if result.ranking:
        rows = [[row.doc, row.score, shorten(row.text, 160, placeholder=" ...")] for row in result.ranking]
        return table(["doc", f"score{precision}", "text"], rows)
    rows = []
    for row in result.predictions:
        text = shorten(row.text, 160, placeholder=" ...")
        rows.append([row.doc, row.label, row.probabilities[row.label], text])
    return table(["doc", "class", "probability", "text"], rows)


def baseline_text(ranking: Ranking) -> str:
    how = f"{ranking.setting}: {', '.join(f'{key} {value}' for key, value in ranking.params.items())}"
    if chosen := ranking.chosen:
        how += f" (best {chosen.metric} {chosen.value:.4f} of {chosen.points} settings on dev)"
    head = f"{ranking.queries} {ranking.split} queries, ranked: {ranking.ranked}"
    metrics = table(["metric", ranking.split], ranking.metrics.items())
    return "\n\n".join([f"{head}\n{how}", metrics, f"run written to {ranking.run_file}"])


def evaluate_text(evaluation: Evaluation) -> str:
    """The means, then each comparison with the first run."""
    first, runs = evaluation.runs[0], evaluation.runs
    parts = [table(["run", *first.metrics], ([run.run, *run.metrics.values()] for run in runs))]
    for run in runs:
        if run.queries_missing:
            parts.append(f"{run.run} lacks {run.queries_missing} judged queries; they count 0.")
    for run in runs:
        if run.vs_first is None:
            continue
        rows = []
        for name, test in run.vs_first.items():
            p = p_value(test.p), p_value(test.p_adjusted)
            rows.append([name, test.difference, interval_words(test.ci95), test.t, *p])
        shown = table(["metric", "difference", "95 % CI", "t", "p", "p adjusted"], rows)
        parts.append(f"{run.run} against {first.run}, paired t-test over queries:\n{shown}")
    return "\n\n".join(parts)


def score_text(result: Difficulties) -> str:
    shown = {name: getattr(result, name) for name in ("count", "min", "max", "mean", "seconds", "cached", "output")}
    parts = [table(["", "value"], shown.items())]
    for name, examples in (("easiest", result.easiest), ("hardest", result.hardest)):
        parts.append("\n".join([f"{name}:", *(line for example in examples for line in _scored(example))]))
    return "\n\n".join(parts)


def _scored(example: ScoredExample) -> list[str]:
    lines = [f"  {example.value:.4g}  {example.query_id}"]
    for label, text in (("query", example.query), (example.label, example.document)):
        lines += wrap(f"{label}: {text}", 110, initial_indent="    ", subsequent_indent="      ")
    return lines


# -- before a search -----------------------------------------------------------------------------------------------


def check_text(check: SpaceCheck) -> str:
    rows = {topic: text for topic, text in _topics(check).items() if text}
    return table([f"space {check.space}", ""], rows.items())


def _topics(check: SpaceCheck) -> dict[str, str]:
    from tune_cl.samplers import SEARCHERS
    from tune_cl.space.wording import DEFAULT, OF_CURRICULUM

    size = "continuous" if check.combinations is None else f"{check.combinations:,} combinations"
    conditional = f"{check.conditional} conditional, " if check.conditional else ""
    shown = {}
    for key, value in check.baseline.items():
        if check.over_curricula or not key.startswith(OF_CURRICULUM):  # else it turns off what no trial has
            shown[key] = _value(value)
    default = ", ".join(f"{key} {value}" for key, value in shown.items())
    return {
        "trains": f"{', '.join(check.rankers)} on {check.data or 'its own data'}, for {check.metric} on dev",
        "searches": f"{counted(check.parameters, 'key')} ({conditional}{size})",
        "searcher": f"{check.searcher}: {SEARCHERS.entries[check.searcher].summary}",
        "tries first": f"{check.points} published curricula" if check.points else "",
        "trials": f"{check.trials}, of at most {counted(check.max_iterations, 'iteration')} each",
        "plain trials": _plain_trials(check),
        "curricula" if check.over_curricula else "other trials": _curricula(check),
        "further seeds": f"{check.phases.seeds}, for the best of both" if check.phases.seeds else "",
        DEFAULT: f"{default or 'as the configuration is by default'}; the first trial, never stopped early",
        "scheduler": _scheduler(check),
        "iterations": f"{check.iterations_at_most:,} at most",
        "teacher": _before(check.teacher_iterations, ": one more training, which a scoring needs"),
        "pre-training": _before(check.pretraining_iterations),
        "time here": _time_here(check),
        "GPU": f"at most {check.gpu_hours_at_most:.3g} hours" if check.gpu_hours_at_most else "",
    }


def _plain_trials(check: SpaceCheck) -> str:
    from tune_cl.space.wording import DEFAULT, PLAIN_TRAINING

    if not check.shared:
        return f"{DEFAULT}, alone: {check.plain} is not tuned"
    named = "" if check.plain == PLAIN_TRAINING else f" with {check.plain}"
    number = "the twins of all curricula" if check.phases.plain == 1 else f"{check.phases.plain} of them"
    return f"{number}{named}, over {', '.join(check.shared)}"


def _curricula(check: SpaceCheck) -> str:
    if check.phases.plain == 1:
        return str(check.phases.curricula)
    return f"{check.phases.curricula}, at the best of these settings"


def _value(value: object) -> str:
    from tune_cl.space.space_files import on_a_line

    return f"{value:.3g}" if isinstance(value, float) else on_a_line(value)


def _scheduler(check: SpaceCheck) -> str:
    from tune_cl.schedulers import SCHEDULERS

    summary = SCHEDULERS.entries[check.scheduler].summary
    text = f"{check.scheduler}: {summary.replace('reduction_factor', format(check.reduction_factor, 'g'))}"
    if check.rungs:
        at = "rungs at iterations" if len(check.rungs) > 1 else "a rung at iteration"
        text += f"; {at} {', '.join(map(str, check.rungs))}"
    return text + (f"; each trial is compared {check.judged}" if check.judged else "")


def _before(iterations: int, what: str = "") -> str:
    return f"at most {counted(iterations, 'iteration')} before the first trial{what}" if iterations else ""


def _time_here(check: SpaceCheck) -> str:
    hours, seconds = check.hours_at_most, check.seconds_per_iteration
    together = f"{check.at_a_time} at a time"
    if seconds is None or hours is None:
        return f"not measured, {together}"
    return f"at most {duration(hours * 3600)} without start-up, {together}, {seconds:.3g} s an iteration"


def data_text(facts: DataFacts) -> str:
    features = f", {facts.features} features" if facts.features else ""
    lines = [f"{facts.data}: {facts.task}, {facts.documents:,} documents{features}"]
    lines.append(f"read as {facts.form} ({facts.recognised_by})")
    if facts.files:
        more = f" and {len(facts.files) - FILES} more" if len(facts.files) > FILES else ""
        lines.append(f"from {', '.join(facts.files[:FILES])}{more}")
    lines += ["", _splits(facts), ""]
    if facts.shared:
        rows = []
        for pair in facts.shared:
            rows.append([" and ".join(pair.splits), pair.queries, pair.documents, pair.document_texts])
        lines += [table(["shared by", "queries", "documents", "document texts"], rows), ""]
    lines += [f"note: {note}" for note in facts.notes]
    lines += [f"warning: {warning}" for warning in facts.warnings]
    lines.append("")
    for split, examples in facts.examples.items():
        for example in examples:
            lines += _example(split, example)
    return "\n".join(lines).rstrip("\n")


def _splits(facts: DataFacts) -> str:
    """A table of the splits: rows of figures for a ranking, a row each for a classification."""
    splits: dict[str, Any] = dict(facts.splits)
    if facts.task == "classification":
        rows = [[name, split.queries, *split.classes.values()] for name, split in splits.items()]
        return table(["split", "pairs", *next(iter(splits.values())).classes], rows)
    figures: dict[str, Callable[[Any], str]] = {
        "queries": lambda split: f"{split.queries:,}",
        "candidates": lambda split: f"{split.candidates:,}",
        "candidates a query": lambda split: (
            f"{split.group_sizes.min} to {split.group_sizes.max}, mean {split.group_sizes.mean:.1f}"
        ),
        "judged candidates": lambda split: f"{split.judged_share:.1%}",
        "relevant a query": lambda split: f"{split.positives_per_query:.2f}",
        "queries without relevant": lambda split: f"{split.queries_without_positive:,}",
        "relevant, not candidates": lambda split: f"{split.positives_not_candidates:,}",
    }
    rows = [[name, *map(figure, splits.values())] for name, figure in figures.items()]
    return table(["", *splits], rows)


def _example(split: str, example: Example) -> list[str]:
    turns, last = example.utterances, example.utterances[-1]
    several = f" ({len(turns)} turns, the last shown)" if len(turns) > 1 else ""
    lines = [f"{split} {example.query}{several}: {cut(last, WIDTH)}"]
    for candidate in example.candidates:
        mark = candidate.grade if candidate.label is None else candidate.label
        lines.append(f"  {mark:>2}  {candidate.document}: {cut(candidate.text, WIDTH)}")
    return lines


def list_text(rows: list[Part] | list[SearchEntry]) -> str:
    if not rows:
        return "no searches here yet; tune-cl run starts one"
    names = list(type(rows[0]).model_fields)
    return table(names, [[getattr(row, name) for name in names] for row in rows])


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
