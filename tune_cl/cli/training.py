"""One training, its ranker, and the parts of a curriculum: train, rerank, score, pace, weigh."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError, DataError, Interrupted, Problem, UserError, nearest
from trainables.core.files import output_file, require_file, write_text
from trainables.core.prose import say
from trainables.curriculum.pacing import PACINGS, Schedule
from trainables.curriculum.sampler import easy_first
from trainables.curriculum.weighting import WEIGHTINGS, values_of, weights
from trainables.data.cells import IDS, TEXTS, Wrong, id_of, text_of
from trainables.data.files import whole_text
from trainables.data.instances import DRAWN, NONE
from trainables.evaluation.per_query import probabilities
from tune_cl.cli import Command
from tune_cl.cli.options import add_overrides, add_split
from tune_cl.cli.tables import table
from tune_cl.command_options import DATA_HELP
from tune_cl.documents import document_of
from tune_cl.process import program

COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"  # of heuristics in a picture

if TYPE_CHECKING:
    from trainables.loops.instances import SplitInstances
    from tune_cl.api.rankers import Ranker
    from tune_cl.api.training import TrainedRun


class TrainCommand(Command):
    """Examples:
      tune-cl train --data ../data/wikiqa --ranker conv_knrm
      tune-cl train --data docstrings --ranker bert --set ranker.model=tiny --set curriculum.pacing=root --output root

    SPACE is the configuration to start from; ranges give the baseline's values. The same command again continues a
    training that was stopped, from the last saved iteration."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("space", nargs="?", metavar="SPACE", help="a shipped space or a YAML file")
        parser.add_argument("--data", help=DATA_HELP)
        parser.add_argument("--ranker", help="see tune-cl list rankers")
        parser.add_argument(
            "--output",
            type=Path,
            metavar="DIR",
            help="folder for the ranker, its run and its state (default: one for each configuration)",
        )
        help_of_test = "evaluate the best weights on test, which is not read otherwise"
        parser.add_argument("--test", action="store_true", help=help_of_test)
        add_overrides(parser)

    def execute(self, options: Namespace) -> TrainedRun:
        from tune_cl.api.training import train

        try:
            given = options.space, options.data, options.ranker, options.overrides, options.output
            return train(*given, test=options.test)
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; saved iterations are kept. Go on with: {same_again(options)}") from None

    def render(self, document: TrainedRun) -> str:
        at = f"at iteration {document.best_iteration} of {len(document.dev)}"
        lines = [f"best dev {document.metric} {document.dev_best:.4f} {at}", ""]
        if document.test:
            lines += [table(["metric", "test"], document.test.items()), ""]
        return "\n".join([*lines, f"run     {document.run_file}", f"ranker  {document.checkpoint}"])


def same_again(options: Namespace) -> str:
    """The command for the same training again."""
    parts = [*([options.space] if options.space is not None else []), *(["--test"] if options.test else [])]
    flags = {"--data": options.data, "--ranker": options.ranker, "--output": options.output}
    for flag, value in [*flags.items(), *(("--set", override) for override in options.overrides)]:
        parts += [] if value is None else [flag, str(value)]
    return " ".join([program("tune-cl"), "train", *map(quote, parts)])


SPLIT = "test"  # that is re-ranked by default
START = 160  # letters of a document's text in the table; the JSON document has all


class RerankCommand(Command):
    """Examples:
      tune-cl rerank runs/model --data ../data/mediqa --split test --output mediqa.run.txt
      tune-cl rerank runs/model --query "how do I sort a table" --documents answers.txt
      tune-cl rerank cross-encoder/ms-marco-MiniLM-L6-v2 --data ../data/wikiqa

    CHECKPOINT may be any model that can be trained: a cross-encoder with one or two labels, a SentenceTransformer, or a
    language model. DOCUMENTS has one document a line: its text, or its id, a tab and its text, or an object of JSON
    with _id and text. A ranker that was trained to classify pairs predicts classes: of the pairs of DATA (as TSV), or
    of each document with the query as the first sentence."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "checkpoint",
            metavar="CHECKPOINT",
            help="folder of a ranker, as tune-cl train and run write it, or of a model of others, or its hub name",
        )
        parser.add_argument("--data", help=f"re-rank the candidates of {DATA_HELP}")
        add_split(parser, SPLIT, "candidates are re-ranked")
        parser.set_defaults(split=None)  # shows whether it was given
        parser.add_argument(
            "--output", type=Path, help="file to write (default: rerank.SPLIT.run.txt, or .predictions.tsv)"
        )
        parser.add_argument(
            "--precision",
            choices=("fp32", "bf16", "auto"),
            help="of the scores; auto: bf16 where the hardware has it (default: that of its training, and fp32 for a "
            "model that tune_cl did not train)",
        )
        parser.add_argument("--query", help="rank documents for this text")
        parser.add_argument("--documents", type=Path, help="file with one document a line")

    def execute(self, options: Namespace) -> Reranked:
        if (options.data is None) == (options.query is None) or (options.query is None) != (options.documents is None):
            raise UserError(
                Problem("rerank", "needs one task", "either --data DATA, or --query TEXT with --documents FILE")
            )
        if options.query is not None:
            _require_none_of_data(options)
        from tune_cl.api.rankers import load_ranker

        with _of_checkpoint():
            ranker = load_ranker(options.checkpoint, precision=options.precision)
        if options.query is not None:
            return _rank_texts(ranker, options)
        run_file = ranker.rerank(options.data, options.split or SPLIT, options.output)
        return Reranked(precision=ranker.arithmetic, run_file=str(run_file))

    def render(self, document: Reranked) -> str:
        precision = f" ({document.precision})" if document.precision else ""
        if document.run_file:
            return f"written to {document.run_file}{precision}"
        if document.ranking:
            rows = [[row.doc, row.score, _start(row.text)] for row in document.ranking]
            return table(["doc", f"score{precision}", "text"], rows)
        rows = [
            [row.doc, row.class_, max(row.probabilities.values()), _start(row.text)] for row in document.predictions
        ]
        return table(["doc", "class", "probability", "text"], rows)


@dataclass(frozen=True)
class RankedText:
    """A document for a query."""

    doc: str
    score: float
    text: str


@dataclass(frozen=True)
class ClassifiedText:
    """A document with its likeliest class and the probability of each."""

    doc: str
    class_: str
    probabilities: Mapping[str, float]
    text: str


@dataclass(frozen=True, kw_only=True)
class Reranked:
    """What `tune-cl rerank` made: a file of a split's ranking, or for one query a ranking or predictions of documents.
    precision: of the scores; None of trees."""

    precision: str | None
    run_file: str | None = None
    ranking: list[RankedText] = field(default_factory=list)
    predictions: list[ClassifiedText] = field(default_factory=list)

    @property
    def document(self) -> dict[str, Any]:
        """For --json: what was made."""
        return {name: value for name, value in document_of(self).items() if value}


@contextmanager
def _of_checkpoint() -> Iterator[None]:
    """What is wrong with a model is wrong with CHECKPOINT here: this command has no ranker.* keys."""
    try:
        yield
    except ConfigError as error:
        named = [replace(p, location="CHECKPOINT") if p.location.startswith("ranker.") else p for p in error.problems]
        raise ConfigError(named) from error


def _start(text: str) -> str:
    return shorten(text, START, placeholder=" ...")


def _require_none_of_data(options: Namespace) -> None:
    """Raises UserError for options that have no effect on the ranking of documents for a text."""
    wrong = {
        "output": "is for the ranking of data; the ranking for a text is printed",
        "split": "is for data; a text has no splits",
    }
    given = [key for key in wrong if getattr(options, key) is not None]
    if given:
        raise UserError(Problem(f"--{key}", wrong[key], f"--data DATA, or no --{key}") for key in given)


def _rank_texts(ranker: Ranker, options: Namespace) -> Reranked:
    if not options.query.strip():
        raise UserError(Problem("--query", "is empty", "the words to rank documents for"))
    if not ranker.reads_texts:
        raise UserError(Problem("--query", f"{ranker.name} reads features, no texts", "--data FOLDER"))
    ids, texts = _documents(options.documents)
    if ranker.classes:
        logits = ranker.predict([(options.query, text) for text in texts])
        predicted = _predictions(ids, texts, ranker.classes, logits)
        return Reranked(precision=ranker.arithmetic, predictions=predicted)
    ranked = [RankedText(ids[row], score, texts[row]) for row, score in ranker.rank(options.query, texts)]
    return Reranked(precision=ranker.arithmetic, ranking=ranked)


def _predictions(
    ids: list[str], texts: list[str], classes: tuple[str, ...], logits: np.ndarray
) -> list[ClassifiedText]:
    """The likeliest class of each document, and the probabilities of all classes, from logits [N, K]."""
    rows = probabilities(logits).tolist()
    return [
        ClassifiedText(name, classes[row.index(max(row))], dict(zip(classes, row, strict=True)), text)
        for name, text, row in zip(ids, texts, rows, strict=True)
    ]


def _documents(path: Path) -> tuple[list[str], list[str]]:
    """Ids (as given, or the line number from 1) and texts; the file may be gzipped. Objects of JSON, one a line, have
    an id and a text, as in a corpus."""
    whole, problems = whole_text(path, pipes=True), list[Problem]()
    texts: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for number, name, text in _objects(whole, path) if whole.lstrip().startswith("{") else _named_lines(whole):
        place = f"{path}:{number}"
        if not name.strip():
            problems.append(Problem(place, "no id before the tab", "id, tab, text, or a text alone"))
        elif not text.strip():
            problems.append(Problem(place, f"document '{name}' has no text", "give the document a text"))
        elif name in line_of:
            problems.append(Problem(place, f"document '{name}' is also in line {line_of[name]}", "every id once"))
        else:
            texts[name], line_of[name] = text, number
    if problems:
        raise DataError(problems)
    if not texts:
        raise DataError(Problem(str(path), "has no documents", "one document a line"))
    return list(texts), list(texts.values())


def _named_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, id, text) of each line that is not blank."""
    for number, line in enumerate(text.split("\n"), 1):  # splitlines would end lines at a lone CR too
        line = line.removesuffix("\r")
        if line.strip():
            name, tab, behind = line.partition("\t")
            yield (number, name, behind) if tab else (number, str(number), line)


def _objects(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, id, text) of each object of JSON; its line where it has no id."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = dict(json.loads(line))
            name = id_of(next((row[key] for key in IDS if key in row), number))
            yield number, str(name), text_of(TEXTS[0], row)
        except (ValueError, TypeError, Wrong) as error:
            wrong, right = error.args if isinstance(error, Wrong) else ("no object of JSON", "an object a line")
            raise DataError(Problem(f"{path}:{number}", wrong, right)) from None


SHOWN = 3
NOT_FIXED = "(drawn each time from the less relevant candidates)"
LETTERS = 300  # of a text
WIDTH = 110  # of the printed examples


class ScoreCommand(Command):
    """Example: tune-cl score docstrings context_words --output difficulty.tsv

    Writes one line an instance: query id, document id(s), difficulty (higher = harder). An instance is a query with one
    of its relevant documents, whose negatives are drawn in training. With --set training.negatives=all every pair of a
    relevant document and a lower-graded one is an instance, and with --set training.loss=pointwise as well every
    candidate. --set training.loss=pointwise alone gives two instances a relevant document: itself, and one drawn
    negative."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("data", metavar="DATA", help=DATA_HELP)
        parser.add_argument("scoring", metavar="SCORING", help="see tune-cl list scorings")
        add_split(parser, "train", "instances are scored")
        parser.add_argument("--output", type=Path, help="TSV file (default: SCORING.SPLIT.tsv)")
        add_overrides(parser)

    def execute(self, options: Namespace) -> Difficulties:
        from trainables.loops.instances import difficulties, instances_of
        from tune_cl.experiment.load import load_training_run

        output = options.output or Path(f"{options.scoring}.{options.split}.tsv")
        require_file("--output", output)
        part = instances_of(load_training_run(None, options.overrides, options.data), options.split, options.scoring)
        scored = difficulties(part, options.scoring)
        values = scored.values
        with output_file(output) as file:
            write_text(file, "".join(_lines(part, values)))
        return Difficulties(
            count=len(values),
            min=float(values.min()),
            max=float(values.max()),
            mean=float(values.mean()),
            seconds=scored.seconds,
            cached=scored.cached,
            output=str(output),
            examples=extremes(part, values),
        )

    def render(self, document: Difficulties) -> str:
        values = {name: value for name, value in vars(document).items() if name != "examples"}
        return table(["", "value"], values.items()) + "\n" + as_text(document.examples)


@dataclass(frozen=True)
class ScoredExample:
    """An instance with its difficulty, its texts cut to LETTERS. `label`: relevant, other, or a pair's class."""

    value: float
    query_id: str
    query: str
    document: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Difficulties:
    """The fields of `tune-cl score --json`. cached: whether they were computed before."""

    count: int
    min: float
    max: float
    mean: float
    seconds: float
    cached: bool
    output: str
    examples: Mapping[str, list[ScoredExample]]


def extremes(part: SplitInstances, values: np.ndarray) -> dict[str, list[ScoredExample]]:
    """The SHOWN easiest and hardest instances, on each side of different queries, most extreme first."""
    examples = {}
    for name, order in (("easiest", easy_first(values)), ("hardest", easy_first(values, anti=True))):
        _, first = np.unique(part.instances.query[order], return_index=True)
        rows = order[np.sort(first)[:SHOWN]].tolist()
        examples[name] = [_example(part, row, float(values[row])) for row in rows]
    return examples


def _example(part: SplitInstances, row: int, value: float) -> ScoredExample:
    data, split, instances = part.data, part.split, part.instances
    query = int(part.query[row])
    positive = int(instances.fixed_positive[row])
    shown = positive if positive != NONE else int(instances.negative[row])
    document = NOT_FIXED if shown == DRAWN else data.documents[int(split.document[shown])]
    texts = data.query_text(query), document
    asked, answer = (shorten(text, LETTERS, placeholder=" ...") for text in texts)
    label = "other" if positive == NONE else data.classes[split.grade[positive]] if data.classes else "relevant"
    return ScoredExample(value, data.query_ids[query], asked, answer, label)


def as_text(examples: Mapping[str, list[ScoredExample]]) -> str:
    """The examples of either end, a block each."""
    blocks = []
    for name, of_end in examples.items():
        blocks.append(f"\n{name}:")
        for example in of_end:
            lines = [f"  {example.value:.4g}  {example.query_id}"]
            lines += _indented("query: ", example.query) + _indented(f"{example.label}: ", example.document)
            blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _indented(label: str, text: str) -> list[str]:
    return wrap(label + text, WIDTH, initial_indent="    ", subsequent_indent="      ")


def _lines(part: SplitInstances, values: np.ndarray) -> Iterator[str]:
    """TSV lines: query id, the instance's fixed documents joined by a space, value."""
    rows = zip(part.query, part.ids(part.document), part.ids(part.negative), values.tolist(), strict=True)
    for query, document, negative, value in rows:
        documents = " ".join(name for name in (document, negative) if name is not None)
        yield f"{part.data.query_ids[int(query)]}\t{documents}\t{value!r}\n"


READ = ("n", "delta", "stages", "reference", "final_share")  # of a schedule, besides its steps


class PaceCommand(Command):
    """Example: tune-cl pace root --n 2 --delta .33 --steps 1000 --at 0 250 500 1000"""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pacing", metavar="PACING", help=", ".join(PACINGS))
        parser.add_argument("--n", type=float, help="root (default 2)")
        parser.add_argument("--delta", type=float, help="fraction at the start (default .33)")
        parser.add_argument("--stages", type=int, help="stages of a pacing that has stages (default 3)")
        parser.add_argument("--final-share", type=float, help="fraction of the data ever used (default 1)")
        parser.add_argument("--reference", choices=["paper", "code"], help="see curriculum.reference (default paper)")
        parser.add_argument(
            "--steps", type=float, default=1000, help="T, the step from which everything is available (default 1000)"
        )
        parser.add_argument(
            "--at", type=_step, nargs="+", action="extend", help="steps to show (default: at most eleven from 0 to T)"
        )

    def execute(self, options: Namespace) -> list[dict[str, Any]]:
        given = {key: value for key in READ if (value := getattr(options, key)) is not None}
        schedule = Schedule(options.pacing, options.steps, **given)
        _require_schedule(options, schedule)
        if idle := _idle(options, given):
            say(f"note: without effect on pacing {options.pacing}: {', '.join(idle)}")
        if "patience" in PACINGS[options.pacing].needs:
            say(f"note: {options.pacing} opens more whenever dev stops rising; these fractions are without that")
        return [
            {"step": _whole(step), "share": schedule.share(step)} for step in options.at or _shown_steps(options.steps)
        ]

    def render(self, document: list[dict[str, Any]]) -> str:
        return table(["step", "share"], ([row["step"], f"{row['share']:.6f}"] for row in document))


def _step(text: str) -> float:
    """A step; argparse takes a pacing that follows --at as one, too."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a step; PACING comes before --at") from None


def _idle(options: Namespace, given: Mapping[str, Any]) -> list[str]:
    """The given options that the pacing does not read."""
    curriculum = {"pacing": options.pacing, "reference": options.reference or "paper"}
    active = TrainingRun.model_validate({"curriculum": curriculum}).in_force()
    return [f"--{key.replace('_', '-')}" for key in given if f"curriculum.{key}" not in active]


def _shown_steps(horizon: float) -> list[float]:
    """Whole steps, as far as T counts steps; with a T of at most 1 they are shares of all steps."""
    return [horizon * i / 10 for i in range(11)] if horizon <= 1 else [*_eleven(math.ceil(horizon))]


def _eleven(last: int) -> list[int]:
    """At most eleven whole numbers from 0 to the last."""
    return sorted({round(last * i / 10) for i in range(11)})


def _require_schedule(options: Namespace, schedule: Schedule) -> None:
    PACINGS[schedule.pacing]  # raises for an unknown name
    delta, most, n, stages = schedule.delta, schedule.final_share, schedule.n, schedule.stages
    checks = [
        (0 < delta <= 1, "--delta", f"{delta:g} is not a fraction", "a number above 0 and at most 1"),
        (0 < most <= 1, "--final-share", f"{most:g} is not a fraction", "a number above 0 and at most 1"),
        (1 <= n < math.inf, "--n", f"{n:g} is not a root", "a number of at least 1"),
        (2 <= stages <= 100, "--stages", f"{stages} stages are not possible", "2 to 100"),
        (0 < options.steps < math.inf, "--steps", f"{options.steps:g} is not a number of steps", "a number above 0"),
    ]
    checks += [(0 <= at < math.inf, "--at", f"{at:g} is not a step", "steps of at least 0") for at in options.at or []]
    _require(checks)


def _require(checks: Sequence[tuple[bool, str, str, str]]) -> None:
    """Raises ConfigError with the problem (location, what is wrong, what would be right) of each check that fails."""
    if problems := [Problem(*problem) for holds, *problem in checks if not holds]:
        raise ConfigError(problems)


def _whole(step: float) -> int | float:
    return int(step) if step == int(step) else step


class WeighCommand(Command):
    """Examples:
      tune-cl weigh --difficulty .25 --m 20 --at 0 5 10 20
      tune-cl weigh ../data/cacm 12 --output weights.svg

    W(t, i) = D + (i / m)(1 - D) until iteration m, then 1 (MacAvaney et al. 2020, Eq. 3). In that paper the
    difficulty D is 1 for the easiest samples; --anti turns it round. With DATA and the id of a training QUERY: each
    document's value under every heuristic, from which D follows (their Fig. 2); --output draws them over its score."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("data", metavar="DATA", nargs="?", help=DATA_HELP)
        parser.add_argument("query", metavar="QUERY", nargs="?", help="the id of a query")
        parser.add_argument("--difficulty", type=float, metavar="D", help="in [0, 1], 1 = easiest")
        end = "iterations until all weights are 1, or inf (default 20)"
        parser.add_argument("--m", type=float, default=20, help=end)
        parser.add_argument(
            "--at",
            type=int,
            nargs="+",
            action="extend",
            metavar="I",
            help="iterations, counted from 0 (default: 0 to m, eleven of them)",
        )
        parser.add_argument("--anti", action="store_true", help="hard samples weigh more")
        add_split(parser, "train", "query it is")
        parser.add_argument("--output", type=Path, help="SVG file")
        add_overrides(parser)

    def execute(self, options: Namespace) -> list[dict[str, Any]] | dict[str, Any]:
        if options.query is not None and options.difficulty is None:
            return _values_of_query(options)
        _require_sound(options)
        last = 100 if math.isinf(options.m) else math.ceil(options.m)
        iterations = options.at if options.at is not None else _eleven(last)
        ease = np.asarray(1 - options.difficulty if options.anti else options.difficulty)
        return [{"iteration": i, "weight": float(weights(ease, i, options.m))} for i in iterations]

    def render(self, document: list[dict[str, Any]] | dict[str, Any]) -> str:
        if isinstance(document, list):
            return table(["iteration", "weight"], ([row["iteration"], f"{row['weight']:.6f}"] for row in document))
        documents = document["documents"]
        drawn = f"\n\npicture written to {document['output']}" if document["output"] else ""
        return f"{document['query']}\n\n{table(list(documents[0]), (row.values() for row in documents))}{drawn}"


def _require_sound(options: Namespace) -> None:
    difficulty, m = options.difficulty, options.m
    if difficulty is None or options.data is not None:
        raise ConfigError(Problem("tune-cl weigh", "one of two is needed", "--difficulty D alone, or DATA and QUERY"))
    checks = [
        (0 <= difficulty <= 1, "--difficulty", f"{difficulty:g} is out of range", "a number in [0, 1]"),
        (m >= 1, "--m", f"{m:g} is below 1", "a number of iterations of at least 1, or inf"),
    ]
    checks += [(i >= 0, "--at", f"{i} is before the start", "iterations of at least 0") for i in options.at or []]
    _require(checks)


def _values_of_query(options: Namespace) -> dict[str, Any]:
    """The candidates of a query in the order of the first stage, with the value of each under every heuristic."""
    from trainables.data import load_data
    from trainables.data.columns import NO_RANK, required_split
    from trainables.data.combine import some_queries
    from tune_cl.experiment.load import load_training_run

    if options.output:
        require_file("--output", options.output)
    run = load_training_run(None, options.overrides, options.data)
    data = load_data(run.data, run.evaluation.relevance_level)
    split = required_split(data, options.split)
    ids = [data.query_ids[query] for query in split.query.tolist()]
    if options.query not in ids:
        right = nearest(options.query, ids if len(ids) < 20 else ids[:3])
        raise ConfigError(Problem("QUERY", f"no query '{options.query}' in {options.split} of '{data.name}'", right))
    split = some_queries(split, np.array([ids.index(options.query)]))
    if (split.rank == NO_RANK).all():
        raise DataError(Problem("DATA", "no first-stage ranking of this query", "a run, or data.candidates: bm25"))
    code = run.curriculum.reference == "code"
    values = {name: values_of(name, split, code) for name, made in WEIGHTINGS.items() if made is not None}
    documents = [
        {
            "document": data.document_ids[int(split.document[row])],
            "rank": None if split.rank[row] == NO_RANK else int(split.rank[row]),
            "score": float(split.score[row]),
            "grade": int(split.grade[row]) if split.grade[row] >= 0 else None,
            **{name: float(of_name[row]) for name, of_name in values.items()},
        }
        for row in np.argsort(np.where(split.rank == NO_RANK, np.inf, split.rank), kind="stable").tolist()
    ]
    if options.output:
        with output_file(options.output) as file:
            write_text(file, _picture(documents, list(values)))
    query = {"query_id": options.query, "query": data.query_text(int(split.query[0]))}
    return query | {"documents": documents, "output": options.output and str(options.output)}


def _picture(documents: list[dict[str, Any]], names: list[str]) -> str:
    """The heuristics' values over first-stage scores; a ring for each document of a grade above 0."""
    from tune_cl.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, Scale, drawing, frame, path, scale, tag, text

    ranked = [one for one in documents if math.isfinite(one["score"])]
    x, y = scale([one["score"] for one in ranked], LEFT, RIGHT), Scale(0, 1, HEIGHT - BOTTOM, TOP)
    parts = frame(x, y, "first-stage score", "value", HEIGHT - BOTTOM)
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        at = [(x(one["score"]), y(one[name])) for one in ranked]
        parts.append(tag("path", d=path(at), fill="none", stroke=colour))
        rings = [point for point, one in zip(at, ranked, strict=True) if one["grade"]]
        parts += [tag("circle", cx=across, cy=up, r=4.0, fill="none", stroke=colour) for across, up in rings]
        parts.append(tag("g", text(LEFT + 8, TOP + 16 * (number + 1), name, anchor="start"), fill=colour))
    style = "text { font: 12px sans-serif } .grid { stroke: #ddd }"
    svg = drawing(HEIGHT, f"{', '.join(names)} over the first-stage score", tag("style", style), *parts)
    return str(svg).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1) + "\n"
