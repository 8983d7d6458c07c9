"""Tiny data folders in every form that has a reader."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from trainables.data.columns import RankingData, Split

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


def beir_files(runs: bool = True) -> dict[str, str]:
    """The same data as `trec_files`, whose queries stand in one file; the first word of a document is its title."""
    trec, files = trec_files(runs), {}
    documents = [line.replace("\t", " ").split(" ", 2) for line in COLLECTION.splitlines()]
    keys = ("_id", "title", "text")
    files["corpus.jsonl"] = "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in documents)
    queries = [line.split("\t") for name, text in trec.items() if "queries" in name for line in text.splitlines()]
    files["queries.jsonl"] = "".join(
        json.dumps({"_id": name, "text": text, "metadata": {}}) + "\n" for name, text in queries
    )
    for split in ("train", "dev", "test"):
        rows = [line.split() for line in trec[f"qrels.{split}.txt"].splitlines()]
        body = "".join(f"{query}\t{document}\t{grade}\n" for query, _, document, grade in rows)
        files[f"qrels/{split}.tsv"] = "query-id\tcorpus-id\tscore\n" + body
    return files | {name: text for name, text in trec.items() if name.startswith("run.")}


def triple_rows(split: str) -> list[dict[str, str]]:
    """Two queries; the first has two rows, with three documents, the second one. All texts but the queries are in
    every split."""
    keys = ("query", "positive", "negative_1", "negative_2")
    rows = (
        (f"{split} cat", "the cat sat", "a bird flew", "a cat and a dog"),
        (f"{split} cat", "the cat sat", "the dog ran", "a bird flew"),
        (f"{split} dog", "the dog ran", "the cat sat", "a bird flew"),
    )
    return [dict(zip(keys, row, strict=True)) for row in rows]


def triple_files(form: str) -> dict[str, str]:
    """`triple_rows` as JSON, CSV or TSV."""
    separator = {"csv": ",", "tsv": "\t", "jsonl": ""}[form]
    files = {}
    for split in ("train", "dev", "test"):
        rows = triple_rows(split)
        table = "".join(separator.join(row) + "\n" for row in (rows[0], *(row.values() for row in rows)))
        files[f"{split}.{form}"] = table if separator else "".join(json.dumps(row) + "\n" for row in rows)
    return files


def labelled_files(form: str = "jsonl") -> dict[str, str]:
    """The judgments of `triple_rows`, one a row."""
    files = {}
    for split in ("train", "dev", "test"):
        rows = [
            (row["query"], row[name], int(name == "positive")) for row in triple_rows(split) for name in list(row)[1:]
        ]
        if form == "tsv":
            files[f"{split}.tsv"] = "".join(
                f"{a}\t{b}\t{c}\n" for a, b, c in [("sentence1", "sentence2", "label"), *rows]
            )
        else:
            keys = ("anchor", "document", "label")
            files[f"{split}.jsonl"] = "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
    return files


def parquet_files(split_rows: Callable[[str], list[dict[str, str]]] = triple_rows) -> dict[str, bytes]:
    """`triple_rows` as Parquet."""
    files = {}
    for split in ("train", "dev", "test"):
        sink = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(split_rows(split)), sink)
        files[f"{split}.parquet"] = sink.getvalue()
    return files


def saved_dataset_files() -> dict[str, bytes]:
    """`triple_rows` as the datasets library saves them, the training split in two files."""
    names = {"train": "train", "dev": "validation", "test": "test"}
    files = {"dataset_dict.json": json.dumps({"splits": list(names.values())}).encode()}
    for split, folder in names.items():
        table = pyarrow.Table.from_pylist(triple_rows(split))
        parts = [table[:2], table[2:]] if split == "train" else [table]
        arrows = [f"data-{number:05}-of-{len(parts):05}.arrow" for number in range(len(parts))]
        for name, part in zip(arrows, parts, strict=True):
            sink = io.BytesIO()
            with pyarrow.ipc.new_stream(sink, part.schema) as stream:
                stream.write_table(part)
            files[f"{folder}/{name}"] = sink.getvalue()
        files[f"{folder}/state.json"] = json.dumps({"_data_files": [{"filename": name} for name in arrows]}).encode()
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


SICK_WHOLE = (
    *("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score", "entailment_AB"),
    *("entailment_BA", "sentence_A_original", "sentence_B_original", "sentence_A_dataset", "sentence_B_dataset"),
    "SemEval_set",
)


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
    "beir": beir_files(),
    "beir without runs": beir_files(runs=False),
    "triples": triple_files("jsonl"),
    "triples as CSV": triple_files("csv"),
    "triples as TSV": triple_files("tsv"),
    "labelled pairs": labelled_files(),
    "labelled pairs as TSV": labelled_files("tsv"),
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


BINARY_FORMS = {"triples as Parquet": parquet_files(), "datasets": saved_dataset_files()}


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)
    return folder


def assert_equal(one: RankingData, other: RankingData) -> None:
    for column in ("document_ids", "documents", "query_ids", "utterances"):
        assert list(getattr(one, column)) == list(getattr(other, column)), column
    assert list(one.splits) == list(other.splits)
    for name, split in one.splits.items():
        for column in (field.name for field in fields(Split)):
            mine, theirs = getattr(split, column), getattr(other.splits[name], column)
            assert (mine is None) == (theirs is None), column
            if mine is not None:
                np.testing.assert_array_equal(mine, theirs, err_msg=f"{name}.{column}")
