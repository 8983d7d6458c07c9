"""Tiny data folders in every form that has a reader."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

COLLECTION = "d1\tthe cat sat\nd2\tthe dog ran\nd3\ta bird flew\nd4\ta cat and a dog\n"
HEADER = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\n"


def trec_files(runs: bool = True) -> dict[str, str]:
    """Two queries per split, with four judged documents; `a` wants d1, `b` wants d2."""
    files = {"collection.tsv": COLLECTION}
    for split in ("train", "dev", "test"):
        files[f"queries.{split}.tsv"] = f"{split}-a\tcat\n{split}-b\tdog running\n"
        files[f"qrels.{split}.txt"] = "".join(
            f"{split}-{query} 0 {document} {int(document == right)}\n"
            for query, right in (("a", "d1"), ("b", "d2"))
            for document in ("d1", "d2", "d3")
        )
        if runs:
            files[f"run.{split}.txt"] = "".join(
                f"{split}-{query} Q0 {document} 1 {score} x\n"
                for query in "ab"
                for document, score in (("d3", 1), ("d2", 2), ("d4", 2))
            )
    return files


def wikiqa_files() -> dict[str, str]:
    """Two answerable questions per split, which share a sentence, and one that has no right sentence."""
    rows = (("1", "who sat ?", "S1", 1), ("1", "who sat ?", "S2", 0), ("2", "who ran ?", "S2", 1),
            ("2", "who ran ?", "S3", 0), ("3", "who flew ?", "S4", 0))  # fmt: skip
    texts = {"S1": "the cat sat", "S2": "the dog ran", "S3": "a bird sang", "S4": "nobody"}
    return {
        f"WikiQA-{split}.tsv": HEADER
        + "".join(
            f"{split}Q{number}\t{question}\tD1\ttitle\t{split}{sentence}\t{texts[sentence]}\t{label}\n"
            for number, question, sentence, label in rows
        )
        for split in ("train", "dev", "test")
    }


def conversation_files() -> dict[str, str]:
    """Two contexts per split, of one and of two utterances; the second has one wrong response twice."""
    return {
        f"{name}.tsv": f"1\t{name} where is the cat ?\tit sat here\n0\t{name} where is the cat ?\tI agree\n"
        f"1\thello {name}\twho ran ?\tthe dog\n" + f"0\thello {name}\twho ran ?\tI agree\n" * 2
        for name in ("train", "valid", "test")
    }


def letor_files() -> dict[str, str]:
    """Two queries per split, of two rows and of one; feature 2 is in one row only, and two rows have a docid."""
    starts = {"train": 1, "vali": 3, "test": 5}
    return {
        f"{name}.txt": f"2 qid:{start} 1:0.5 2:-1e-3 4:3 # docid = cat{start} inc = 1\n0 qid:{start} 1:0.25\n"
        f"1 qid:{start + 1} 1:7 4:1 #docid = dog{start}\n"
        for name, start in starts.items()
    }


VOCABULARY = "idx_1\tcat\nidx_2\tdog\nidx_3\twho\nidx_4\tsat\n"
ANSWERS = "1\tidx_1 idx_4\n2\tidx_2 idx_4\n3\tidx_1 idx_2\n4\tidx_2\n"


def insurance_v1_files() -> dict[str, str]:
    """Four answers; two training questions without pools, one question with a pool in dev and test."""
    pooled = "1 2\tidx_3 idx_4\t1 3 4\n"
    return {
        "vocabulary": VOCABULARY,
        "answers.label.token_idx": ANSWERS,
        "question.train.token_idx.label": "idx_3 idx_4\t1\nidx_3 idx_2\t2 4\n",
        "question.dev.label.token_idx.pool": pooled,
        "question.test1.label.token_idx.pool": pooled,
    }


def insurance_v2_files() -> dict[str, str]:
    """One question per split; right answer 2 is not in its pool."""
    files = {"vocabulary": VOCABULARY, "InsuranceQA.label2answer.token.encoded": ANSWERS}
    for split in ("train", "valid", "test"):
        name = f"InsuranceQA.question.anslabel.token.100.pool.solr.{split}.encoded"
        files[name] = "auto\tidx_3 idx_4\t1 2\t3 1\n"
    return files


def sick_files() -> dict[str, str]:
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    names = {"SICK_train.txt": 1, "SICK_trial.txt": 4, "SICK_test_annotated.txt": 7}
    return {
        name: header
        + f"{start}\ta cat sat\ta dog ran\t1.5\tNEUTRAL\n{start + 1}\tone\ta dog ran\t4.0\tENTAILMENT\n"
        + f"{start + 2}\ta cat sat\tnobody\t4.0\tCONTRADICTION\n"
        for name, start in names.items()
    }


SNLI_ROWS = (("neutral", "a cat", "a dog", "1"), ("-", "one", "two", "2"), ("entailment", "a cat", "an animal", "3"))


def snli_files(structured: bool = True) -> dict[str, str]:
    """Three pairs per split, one of them without a gold label."""
    keys = ("gold_label", "sentence1", "sentence2", "pairID")
    rows = [dict(zip(keys, row, strict=True)) for row in SNLI_ROWS]
    table = "".join("\t".join((*row, "more")) + "\n" for row in ((*keys[:3], keys[3]), *SNLI_ROWS))
    text = "".join(json.dumps(row | {"captionID": "c"}) + "\n" for row in rows) if structured else table
    return {f"snli_1.0_{split}.{'jsonl' if structured else 'txt'}": text for split in ("train", "dev", "test")}


def quora_files() -> dict[str, str]:
    """The splits of Wang et al.: label, question, question, id."""
    return {
        f"{split}.tsv": f"1\twho sat ?\twhich cat sat ?\t{n}\n0\twho ran ?\twho sat ?\t{n + 1}\n"
        for n, split in ((0, "train"), (2, "dev"), (4, "test"))
    }


def quora_whole_files() -> dict[str, str]:
    """The file as published: ten pairs, one with a quotation mark and a line end, and a pair that lacks a question."""
    rows = [f"{n}\t{n}1\t{n}2\twho sat {n} ?\twhich cat sat ?\t{n % 2}\n" for n in range(10)]
    rows[3] = '3\t31\t32\t"what is ""a\ncat"" ?"\twhich cat ?\t1\n'
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    return {"quora_duplicate_questions.tsv": header + "".join(rows) + "10\t1\t2\twho ?\t\t0\n"}


def squad_files() -> dict[str, str]:
    """One paragraph of three sentences per split, one of them with an initial; the answers are in the second."""
    text = "The cat sat.  Dr. A. Dog ran 2.5 miles! Nobody flew."
    start = text.index("2.5")
    made = {}
    for split in ("train", "dev"):
        answers = [{"text": "2.5 miles", "answer_start": start}, {"text": "Dr. A. Dog", "answer_start": 14}]
        questions = [
            {"id": f"{split}-1", "question": "How far ?", "answers": answers},
            {"id": f"{split}-2", "question": "Who ?", "answers": [{"text": "Nobody", "answer_start": 0}]},
        ]
        paragraphs = [{"context": text, "qas": questions}]
        made[f"{split}-v1.1.json"] = json.dumps({"version": "1.1", "data": [{"title": "T", "paragraphs": paragraphs}]})
    return made


FORMS = {
    "trec": trec_files(),
    "trec without runs": trec_files(runs=False),
    "wikiqa": wikiqa_files(),
    "conversation": conversation_files(),
    "letor": letor_files(),
    "insurance_qa 1": insurance_v1_files(),
    "insurance_qa 2": insurance_v2_files(),
    "squad": squad_files(),
    "sick": sick_files(),
    "snli": snli_files(),
    "snli as a table": snli_files(structured=False),
    "quora": quora_files(),
    "quora as published": quora_whole_files(),
}


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)
    return folder
