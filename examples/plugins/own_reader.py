"""A reader: faq.{train,dev,test}.tsv, each row a question, an answer, and right or wrong (`tune-cl data FOLDER`)."""

from pathlib import Path

import tune_cl
from trainables.core.errors import DataError
from trainables.data.columns import SPLITS, RankingData, Rated, TextColumn
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.rows import Rows
from trainables.data.settings import DataConfig


@tune_cl.reader("faq", "FAQ folder: faq.{train,dev,test}.tsv with question, answer, right or wrong", "an example")
class Faq:
    TASK = "ranking"

    def recognises(self, folder: Path) -> bool:
        return bool(self.files(folder))

    def files(self, folder: Path) -> list[Path]:
        return [path for split in SPLITS if (path := folder / f"faq.{split}.tsv").is_file()]

    def read(self, folder: Path, config: DataConfig, workspace: Path) -> RankingData:
        problems, answers, splits = [], {}, {}  # answers: the number of each text
        for path in self.files(folder):
            questions, grades, rows = {}, {}, Rows(path, ("question", "answer", "right or wrong"), "\t", problems)
            for line, (question, answer, label) in rows:
                if label not in ("right", "wrong") or not question.strip() or not answer.strip():
                    rows.problem(line, "no question, answer and label", "question TAB answer TAB right or wrong")
                pair = questions.setdefault(question, len(questions)), answers.setdefault(answer, len(answers))
                grades[pair] = int(label == "right")
            rated = Rated.of([(*pair, grade) for pair, grade in grades.items()])
            ids, texts = [f"{path.stem}.{number}" for number in questions.values()], [(text,) for text in questions]
            splits[path.stem.removeprefix("faq.")] = RawSplit(ids, texts, rated)
        if problems:
            raise DataError(problems)
        ids, documents = TextColumn.of(map(str, answers.values())), TextColumn.of(answers)
        return assemble(Raw(folder.name, ids, documents, splits), config)
