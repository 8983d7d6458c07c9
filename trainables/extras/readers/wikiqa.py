"""WikiQA (Yang et al. 2015) as its authors publish it: WikiQA-{train,dev,test}.tsv, seven columns with a header."""

from __future__ import annotations

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


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Question = query, sentence = document, label = grade.

    Questions without a right sentence are dropped with their sentences, as in the published results. A
    sentence may serve several questions. Raises DataError with the problems of all files.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    texts: dict[str, _Text] = {}
    documents: dict[str, int] = {}
    splits = {}
    for path in files(folder):
        name = path.name.removeprefix("WikiQA-").partition(".")[0]
        questions, labels = _read_labels(Rows(path, COLUMNS, "\t", problems, header="WikiQA header"), texts, notes)
        answered = dict.fromkeys(question for (question, _), right in labels.items() if right)
        queries = {question: row for row, question in enumerate(each for each in questions if each in answered)}
        rated = [
            (queries[question], documents.setdefault(sentence, len(documents)), right)
            for (question, sentence), right in labels.items()
            if question in queries
        ]
        splits[name] = RawSplit(list(queries), [(questions[query],) for query in queries], Rated.of(rated))
        if dropped := len(questions) - len(queries):
            notes.append(f"{name}: {counted(dropped, 'question')} without a right sentence dropped")
    if problems:
        raise DataError(problems)
    sentences = TextColumn.of(texts[sentence][0] for sentence in documents)
    return assemble(Raw(folder.name, TextColumn.of(documents), sentences, splits, tuple(notes)), config)


Labels = dict[tuple[str, str], bool]  # whether a sentence is right, by the ids of question and sentence


def _read_labels(rows: Rows, sentences: dict[str, _Text], notes: list[str]) -> tuple[dict[str, str], Labels]:
    """The questions of one file by id, and its labels; adds its sentences to those of the other files."""
    questions: dict[str, _Text] = {}
    labels: Labels = {}
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
    return {question: text for question, (text, _) in questions.items()}, labels


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
