"""Are the numbers still those that are stored? For changes that must change none.

    python benchmarks/goldens.py store FOLDER [--only readers,...] [--data DIR]
    python benchmarks/goldens.py compare FOLDER [--only readers,...] [--data DIR]

`store` writes the numbers of each part to FOLDER/PART.json; `compare` computes them again and prints the paths whose
values differ, with exit status 1. Text and messages are not compared, only numbers and digests of arrays.

The code is the tune_cl that Python imports: PYTHONPATH=CHECKOUT chooses another one. Each part runs in a process of its
own with one thread, and all share a cache and a working folder made for them. The numbers of `readers` are the same on
every machine. Those of other parts depend on rounding, so they are compared only where processor and packages are those
of the stored file, and else reported as not comparable.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import tune_cl
from trainables.data import DataConfig, load_data

Facts = dict[str, Any]
PARTS: dict[str, Callable[[Path], Facts]] = {}
CHECKOUT = Path(__file__).resolve().parents[1]
FORMS = CHECKOUT / "tests/goldens/forms.json"
SHOWN = 40  # differences of a part that are printed
ON_EVERY_MACHINE = ("readers",)


def part(function: Callable[[Path], Facts]) -> Callable[[Path], Facts]:
    """Registers a part: a function of the folder of data sets."""
    PARTS[function.__name__] = function
    return function


def digest(values: Any) -> str:
    """Of an array, its numbers whatever their type, or of texts."""
    content = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return sha256(json.dumps(content).encode()).hexdigest()[:12]


# -- readers -------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, tuple[str, Facts]] = {  # further readings: folder, and keys of data.*
    "cacm by bm25": ("trec/cacm", {"candidates": "bm25", "top_k": 20, "bm25": {"k1": 1.2, "b": 0.75}}),
    "cacm by qrels": ("trec/cacm", {"candidates": "qrels"}),
    "cacm in bigrams": ("trec/cacm", {"candidates": "bm25", "words": "bigrams"}),
    "cacm with missed positives": ("trec/cacm", {"top_k": {"train": 10}, "unretrieved_positives": "keep"}),
    "cacm split anew": ("trec/cacm", {"split": [0.5, 0.3, 0.2]}),
    "mediqa in part": ("trec/mediqa", {"train_share": 0.3}),
    "noise by swap": ("trec/mediqa", {"label_noise": {"share": 0.5, "kind": "swap"}}),
    "noise at random": ("trec/mediqa", {"label_noise": {"share": 0.3, "kind": "random", "seed": 4}}),
    "noise by hard": ("trec/cacm", {"label_noise": {"share": 0.5, "kind": "hard"}}),
    "noise of features": ("ltr/mq2008", {"label_noise": {"share": 0.5}}),
    "sick in part": ("pairs/sick", {"train_share": 0.3}),
}


@part
def readers(data: Path) -> Facts:
    found = {name: read(data / name) for name in data_sets(data)}
    found |= {name: read(data / folder, **keys) for name, (folder, keys) in OPTIONS.items()}
    return found | {name: read(folder) for name, folder in forms(Path("forms")).items()}


def data_sets(data: Path) -> list[str]:
    return [str(path.relative_to(data)) for path in sorted(data.glob("*/*")) if path.is_dir()]


def forms(folder: Path) -> dict[str, Path]:
    """Every form of data, each written to a folder with a few rows."""
    folders = {}
    for form, files in json.loads(FORMS.read_text()).items():
        folders[f"form {form}"] = folder / form
        for name, content in files.items():
            path = folder / form / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else b64decode(content["base64"]))
    return folders


def read(source: Path | str, **keys: Any) -> Facts:
    """Counts and digests of all that a reader gives but notes. Order counts."""
    data = load_data(DataConfig(source=str(source), **keys))
    facts: Facts = {
        "documents": len(data.documents),
        "queries": len(data.query_ids),
        "utterances": len(data.utterances),
        "document_ids": digest(data.document_ids),
        "document_texts": digest(data.documents),
        "query_ids": digest(data.query_ids),
        "utterance_texts": digest(data.utterances),
        "utterance_offsets": digest(data.utterance_offsets),
        "domains": [*data.domains, digest(data.domain)],
        "classes": list(data.classes),
        "kind": [data.task, data.words, data.retrieved],
        "group": None if data.group is None else digest(data.group),
        "own": None if data.own is None else digest(data.own),
        "features": None if data.features is None else [*data.features.shape, digest(data.features)],
    }
    return facts | {split: read_split(data, split) for split in data.splits}


def read_split(data: Any, name: str) -> Facts:
    split = data.splits[name]
    in_given_order = np.arange(len(split.document)) if split.given is None else split.given
    ids = list(data.document_ids)
    judged = split.judgments
    return {
        "queries": len(split),
        "candidates": len(split.document),
        "judged": len(split.judged_grade),
        "relevant": int((split.grade > 0).sum()),
        "ranked": int((split.rank > 0).sum()),
        "query": digest(split.query),
        "offsets": digest(split.offsets),
        "document": digest(split.document),
        "candidate_ids": digest(ids[row] for row in split.document),  # holds if the collection has another order
        "grade": digest(split.grade),
        "rank": digest(split.rank),
        "score": digest(np.round(split.score, 6)),  # BM25's last digits depend on the processor
        "given": digest(np.argsort(in_given_order)),
        "judged_grade": digest(split.judged_grade),
        "judged_offsets": digest(split.judged_offsets),
        "judgments": digest([judged.query.tolist(), judged.document.tolist(), judged.value.tolist()]),
        "teacher": None if split.teacher is None else digest(np.round(split.teacher, 6)),
    }


# -- storing and comparing -----------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    """What rounding and the built-in data depend on."""
    from importlib.metadata import version

    packages = "numpy scipy scikit-learn pandas matplotlib networkx torch transformers tokenizers lightgbm optuna"
    cpu = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    rows = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in cpu)}
    processor = " ".join(rows.get(key, "?") for key in ("model name", "cpu family", "model"))
    return {"processor": processor} | {name: version(name) for name in packages.split()}


def compute(name: str, data: Path, folder: Path) -> Facts:
    """The numbers of a part, from a process of its own. Raises SystemExit with its messages if it fails."""
    code = Path(str(tune_cl.__file__)).parents[1]
    own = {"PYTHONPATH": str(code), "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    fixed = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "MLFLOW_TRACKING_URI": ""}
    log, started = folder / f"{name}.log", time.monotonic()
    command = [sys.executable, "-P", __file__, "part", name, "--data", str(data)]
    with log.open("w") as file:
        done = subprocess.run(command, cwd=folder, env=os.environ | own | fixed, stdout=file, stderr=file)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{log.read_text()[-3000:]}")
    print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return json.loads((folder / f"{name}.json").read_text())


def flat(facts: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The values of nested dictionaries and lists by their paths."""
    if isinstance(facts, dict | list) and facts:
        for key, value in facts.items() if isinstance(facts, dict) else enumerate(facts):
            yield from flat(value, f"{path}/{key}")
    else:
        yield path, facts


def compare(name: str, stored: Facts, found: Facts) -> bool:
    """Prints how a part differs; returns whether it is the same. What is not stored, such as a new data set, does not
    count."""
    before, now = dict(flat(stored, name)), dict(flat(found, name))
    differing = [path for path, value in before.items() if path not in now or now[path] != value]
    print(f"{name}: {len(before)} values, {len(differing)} differ")
    for path in differing[:SHOWN]:
        print(f"  {path}: {before[path]}, now {now.get(path, 'nothing')}")
    if len(differing) > SHOWN:
        print(f"  and {len(differing) - SHOWN} more")
    return not differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("store", "compare", "part"))
    parser.add_argument("folder", help="of the stored numbers")
    parser.add_argument("--only", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--data", type=Path, default=CHECKOUT.parent / "shared/data", help="default: %(default)s")
    options = parser.parse_args()
    data = options.data.resolve()
    if options.action == "part":
        Path(f"{options.folder}.json").write_text(json.dumps(PARTS[options.folder](data)))
        return 0
    folder, here, same = Path(options.folder), machine(), True
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.only.split(","):
            file = folder / f"{name}.json"
            stored = json.loads(file.read_text()) if options.action == "compare" else {"machine": {}}
            other = [key for key, value in stored["machine"].items() if here.get(key) != value]
            if other and name not in ON_EVERY_MACHINE:
                print(f"{name}: not comparable, other {', '.join(other)}")
                continue
            found = compute(name, data, Path(temporary))
            if options.action == "compare":
                same &= compare(name, stored["facts"], found)
            else:
                file.write_text(json.dumps({"machine": here, "facts": found}, indent=0) + "\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
