"""WikiQA (Yang et al. 2015) as its authors publish it: WikiQA-{train,dev,test}.tsv, seven columns with a header."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import SPLITS, RankingData, Rated, Task, TextColumn
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.rows import Repeats, Rows, plain_or_packed, usable_id
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
COLUMNS = ("QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label")


def recognises(folder: Path) -> bool:
    return bool(files(folder))


def files(folder: Path) -> list[Path]:
    return [path for split in SPLITS if (path := plain_or_packed(folder, f"WikiQA-{split}.tsv")).exists()]


_Text = tuple[str, str]  # a text and where it stands first


@dataclass(frozen=True)
class _Labels:
    """Rows of one split: question texts by id, labels by (question id, sentence id)."""

    questions: dict[str, str]
    labels: dict[tuple[str, str], bool]

    def answered(self) -> _Labels:
        """The rows of questions that have a right sentence."""
        right = {question for (question, _), label in self.labels.items() if label}
        return _Labels(
            {question: text for question, text in self.questions.items() if question in right},
            {pair: label for pair, label in self.labels.items() if pair[0] in right},
        )


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Question = query, sentence = document, label = grade.

    Questions without a right sentence are dropped with their sentences, as in the published results. A
    sentence may serve several questions. Raises DataError with the problems of all files.
    """
    problems: list[Problem] = []
    texts: dict[str, _Text] = {}
    splits = {}
    notes: list[str] = []
    for path in files(folder):
        name = path.name.removeprefix("WikiQA-").partition(".")[0]
        everything = _read_labels(Rows(path, COLUMNS, "\t", problems, header="WikiQA header"), texts, notes)
        splits[name] = everything.answered()
        dropped = len(everything.questions) - len(splits[name].questions)
        if dropped:
            notes.append(f"{name}: {counted(dropped, 'question')} without a right sentence dropped")
    if problems:
        raise DataError(problems)
    rows = {sentence: row for row, sentence in enumerate(_sentences(splits))}
    ids, documents = TextColumn.of(rows), TextColumn.of(texts[sentence][0] for sentence in rows)
    raw_splits = {name: _raw_split(split, rows) for name, split in splits.items()}
    return assemble(Raw(folder.name, ids, documents, raw_splits, tuple(notes)), config)


def _sentences(splits: dict[str, _Labels]) -> dict[str, None]:
    """All sentence ids, each once, in order."""
    return dict.fromkeys(sentence for split in splits.values() for _, sentence in split.labels)


def _raw_split(split: _Labels, rows: dict[str, int]) -> RawSplit:
    order = {question: row for row, question in enumerate(split.questions)}
    rated = [(order[question], rows[sentence], label) for (question, sentence), label in split.labels.items()]
    return RawSplit(list(split.questions), [(text,) for text in split.questions.values()], Rated.of(rated))


def _read_labels(rows: Rows, sentences: dict[str, _Text], notes: list[str]) -> _Labels:
    """The rows of one file; adds its sentences to those of the other files."""
    questions: dict[str, _Text] = {}
    labels: dict[tuple[str, str], bool] = {}
    lines: dict[tuple[str, str], int] = {}
    repeats = Repeats(rows, notes)
    for number, fields in rows:
        question, text, _, _, sentence, answer, label = fields
        here, pair = rows.location(number), (question, sentence)
        firsts = questions.setdefault(question, (text, here)), sentences.setdefault(sentence, (answer, here))
        if wrong := _wrong(fields, *firsts):
            rows.problem(number, *wrong)
        elif pair in lines:
            other = f"label {label} for '{question}' with sentence '{sentence}', which has another label in"
            repeats.add(number, lines[pair], None if labels[pair] == (label == "1") else other)
        else:
            lines[pair] = number
        labels.setdefault(pair, label == "1")
    repeats.note()
    return _Labels({question: text for question, (text, _) in questions.items()}, labels)


def _wrong(fields: list[str], first_question: _Text, first_sentence: _Text) -> tuple[str, str] | None:
    """What is wrong with a row, given the first texts of its question and sentence."""
    question, text, _, _, sentence, answer, label = fields
    if not usable_id(question) or not usable_id(sentence):
        return f"id '{question}' or '{sentence}' is empty or holds white space", "use ids without"
    if not text.strip() or not answer.strip():
        return "an empty question or sentence", "give a text or leave the row out"
    for name, given, (first, location) in ((question, text, first_question), (sentence, answer, first_sentence)):
        if given != first:
            return f"another text for '{name}' than in {location}", "give each id one text"
    if label not in ("0", "1"):
        return f"label '{label}'", "write 0 or 1"
    return None
