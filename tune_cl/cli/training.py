"""One training, its ranker, and the difficulty of instances: train, rerank, score."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.core.errors import ConfigError, DataError, Interrupted, Problem, UserError
from trainables.core.files import output_file, require_file, write_text
from trainables.curriculum.sampler import easy_first
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
