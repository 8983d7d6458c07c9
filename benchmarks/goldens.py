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
from yaml import safe_load

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


def tried(work: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """What it gives, or its error: the numbers beside it are still compared."""
    try:
        return work(*arguments, **more)
    except Exception as error:  # noqa: BLE001  (whatever the code under test raises)
        return {"failed": f"{type(error).__name__}: {error}"[:300]}


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
    sources = {name: (data / name, {}) for name in data_sets(data)}
    sources |= {name: (data / folder, keys) for name, (folder, keys) in OPTIONS.items()}
    sources |= {name: (folder, {}) for name, folder in forms(Path("forms")).items()}
    return {name: tried(read, source, **keys) for name, (source, keys) in sources.items()}


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


# -- difficulties and curricula ------------------------------------------------------------------------------------

QUICK = "training.max_iterations=2 training.batches_per_iteration=4 training.batch_size=8 training.max_length=32"
TEACHER = "curriculum.teacher.seed=111 curriculum.teacher.max_iterations=2"
WORDS = "random context_words response_words"
TAUGHT = "model_margin model_loss el2n confidence variability"
RANKED = "turns semantic_std bm25_std reciprocal_rank normalized_score kde"
SCORED = (  # data, scorings, curriculum.reference
    ("docstrings", f"{WORDS} {RANKED} model_loss", "paper"),
    ("trec/cacm", f"{WORDS} {RANKED} {TAUGHT} crossfit_loss", "paper"),
    ("trec/cacm", RANKED, "code"),
    ("pairs/sick", f"{WORDS} {TAUGHT}", "paper"),
)
PACINGS = "step linear root geometric quadratic cubic competence baby_steps one_pass"


def keys(words: str) -> Facts:
    """KEY=VALUE as a mapping; a value is YAML, as in --set."""
    return {key: safe_load(value) for key, _, value in (word.partition("=") for word in words.split())}


@part
def difficulties(data: Path) -> Facts:
    """Of each training instance by each scoring; also what the built-in data holds, and curricula in a loop."""
    found: Facts = {"docstrings": read("docstrings")}
    for name, scorings, reference in SCORED:
        source = name if name == "docstrings" else data / name
        overrides = keys(f"{QUICK} {TEACHER} ranker.name=knrm curriculum.reference={reference} data.train_share=0.5")
        for scoring in scorings.split():
            found[f"{name} {scoring} {reference}"] = tried(difficulty, source, scoring, overrides)
    easy = [n * 37 % 101 for n in range(101)]
    for pacing in PACINGS.split():
        more: Facts = {"n": 2, "delta": 0.3, "T": 0.7, "weighting": "difficulty", "m": 4, "anti": pacing == "root"}
        cl = tune_cl.Curriculum(easy, total_steps=40, pacing=pacing, seed=3, **more)
        shares = [[cl.share(step), len(cl.available(step)), *cl.weights([0, 5], step // 8)] for step in range(0, 40, 3)]
        batches = [list(map(int, batch)) for batch in cl.batch_sampler(8)]
        found[f"loop {pacing}"] = {"shares": shares, "batches": digest(batches)}
    return found


def difficulty(source: Path | str, scoring: str, overrides: Facts) -> list[Any]:
    values = tune_cl.difficulty(source, scoring, overrides=overrides)
    return [len(values), values.mean(), digest(values)]


# -- trainings -----------------------------------------------------------------------------------------------------

PACED = "curriculum.pacing=linear curriculum.scoring=response_words curriculum.T=0.8"
WEIGHTED = "curriculum.weighting=normalized_score curriculum.m=2"
HARD = "training.hard_negatives=first_stage"
LISTS = "training.negatives=3"
FAMILIES = {  # names, and the line of each
    "knrm conv_knrm drmm_tks match_pyramid bidaf_t embedding embedding_mlp bert bi_encoder": "{0}: trec/cacm {0}",
    f"{PACINGS} adaptive": f"pacing {{0}}: trec/cacm knrm {PACED} curriculum.n=3 curriculum.pacing={{0}}",
    "difficulty self_paced_linear self_paced_mixture reciprocal_rank normalized_score kde": (
        "weighting {0}: trec/cacm knrm curriculum.m=2 curriculum.weighting={0}"
    ),
    "pointwise mse pairwise hinge cross_entropy": (
        "loss {0}: trec/mediqa knrm evaluation.relevance_level=2 training.loss={0}"
    ),
    "softmax ranknet listnet lambdaloss": (f"loss {{0}}: trec/mediqa knrm {LISTS} {WEIGHTED} training.loss={{0}}"),
    "margin_mse distill_kl cl_drd": (f"loss {{0}}: trec/mediqa knrm {LISTS} {WEIGHTED} {TEACHER} training.loss={{0}}"),
    "swap random hard": "noise {0}: trec/cacm knrm data.label_noise.share=0.5 data.label_noise.kind={0}",
    "label_extremes relevant_count feature_ndcg": (
        "subset {0}: ltr/mq2008 lambdamart curriculum.subset={0} curriculum.switch=8"
    ),
}
TRAININGS = f"""
first stage: trec/cacm conv_knrm ranker.add_first_stage=true ranker.train_vectors=true
bert classification: trec/cacm bert ranker.head=classification training.loss=pointwise {PACED} {WEIGHTED}
bert passages: trec/cacm bert ranker.passages=average ranker.document_length=60
bert lora: trec/cacm bert ranker.lora.rank=2 ranker.head_lr=0.01 training.warmup=0.3
bert of classes: pairs/sick bert data.train_share=0.05
bi_encoder in batch: trec/cacm bi_encoder training.loss=softmax training.in_batch_negatives=true
bi_encoder retrieval: trec/cacm bi_encoder evaluation.retrieve=20 ranker.similarity=dot {PACED}
lambdamart: ltr/mq2008 lambdamart metric=ndcg@10
lambdamart mse: ltr/lightgbm-lambdarank lambdamart curriculum.objective_switch=mse curriculum.switch=8
lambdamart noise: ltr/mq2008 lambdamart data.label_noise.share=0.5 ranker.bagging_fraction=0.5
hinge of classes: pairs/sick embedding_mlp training.loss=hinge {PACED}
cross_entropy of classes: pairs/sick match_pyramid data.train_share=0.1
anti: trec/cacm knrm {PACED} {WEIGHTED} curriculum.anti=true curriculum.final_share=0.7
self-paced: trec/cacm knrm curriculum.pacing=linear curriculum.scoring=self_paced
teacher: trec/cacm knrm {TEACHER} {PACED} curriculum.scoring=model_loss curriculum.teacher.ranker=embedding_mlp
objective switch: trec/cacm knrm curriculum.objective_switch=mse curriculum.switch_at=0.5
all negatives: trec/cacm knrm {PACED} training.negatives=all
hard negatives: trec/cacm knrm {HARD} training.negative_ranks=[2,9]
teacher's negatives: trec/cacm knrm training.hard_negatives=teacher {TEACHER}
negatives ranks: trec/cacm knrm {HARD} {PACED} curriculum.negatives.schedule=ranks
negatives sources: trec/cacm knrm training.hard_negatives=teacher {TEACHER} curriculum.negatives.schedule=sources
negatives groups: trec/cacm knrm {LISTS} {TEACHER} training.loss=cl_drd curriculum.negatives.schedule=groups
micro-batches: trec/cacm conv_knrm training.micro_batch=3 training.clip=0.1 training.weight_decay=0.1
pretrained: trec/cacm knrm training.pretrain_data=DATA/trec/mediqa training.pretrain_iterations=2
other metric: answers/wikiqa knrm metric=mrr@10 training.patience=1 seed=5 data.train_share=0.3
conversation: conversation/dailydialogpp knrm data.train_share=0.05 {PACED} curriculum.scoring=turns
"""


@part
def trainings(data: Path) -> Facts:
    """Values on dev after each iteration, and of all metrics on test."""
    families = [line.format(name) for names, line in FAMILIES.items() for name in names.split()]
    found: Facts = {}
    for line in [*families, *TRAININGS.replace("DATA", str(data)).strip().splitlines()]:
        name, _, words = line.partition(": ")
        source, ranker, *given = words.split()
        overrides = keys(" ".join([QUICK, *given]))
        found[name] = tried(train, data / source, ranker, overrides, Path("trainings", name))
    return found


def train(source: Path, ranker: str, overrides: Facts, output: Path) -> Facts:
    trained = tune_cl.train(data=source, ranker=ranker, overrides=overrides, output=output, test=True)
    return {"dev": trained.dev, "best": trained.best_iteration, "test": dict(trained.test or {})}


# -- searches, a verdict and effects -------------------------------------------------------------------------------

SPACE = safe_load("""
data: docstrings
ranker: knrm
metric: map
curriculum:
  pacing: {choice: [none, linear, root, step]}
  scoring:
    choice: [context_words, response_words, turns, random]
    when: {curriculum.pacing: [linear, root, step]}
  n: {choice: [2, 5], when: {curriculum.pacing: root}}
  delta: {uniform: [0.2, 0.6]}
  T: {choice: [0.3, 0.6]}
  weighting: {choice: [none, normalized_score]}
  m: {choice: [2, 4], when: {curriculum.weighting: normalized_score}}
training:
  loss: {choice: [pairwise, hinge]}
  lr: {loguniform: [2.0e-3, 2.0e-2]}
  batch_size: 16
  max_length: 32
  batches_per_iteration: 8
  max_iterations: 4
baseline: {curriculum.pacing: none, curriculum.weighting: none}
search: {searcher: tpe, startup_trials: 2, trials: 8, scheduler: asha, reduction_factor: 2, grace: 1, max_concurrent: 1}
""")
IMAGINED = safe_load("""
curriculum:
  pacing: {choice: [linear, root]}
  n: {choice: [2, 5], when: {curriculum.pacing: root}}
  delta: {choice: [0.2, 0.4, 0.6]}
  T: {choice: [0.3, 0.6]}
parameters: {rate: {choice: [0, 0.25, 0.5, 0.75]}}
training: {max_iterations: 8}
search: {trials: 12, startup_trials: 4, max_concurrent: 1, reduction_factor: 2, grace: none}
metric: map
""")
SEARCHES = {
    "random": "search.searcher=random search.trials=4",
    "grid": "search.searcher=grid search.scheduler=asha search.trials=8",
    "tpe": "search.searcher=tpe search.scheduler=model",
}


def imagined(config: Any, trial: Any) -> None:
    """Values of a training that never took place: they rise, with an optimum at a rate of .7."""
    level = 1 - (config["parameters"]["rate"] - 0.7) ** 2 + 0.1 * config["curriculum"].get("delta", 0)
    cl = trial.curriculum(range(50), total_steps=8)
    for iteration in range(trial.iteration, 8):
        Path("state").mkdir(exist_ok=True)
        share = cl.share(iteration) * (1 - 0.5 ** (iteration + 1))
        trial.report({"map": {f"q{n}": level * share + n / 50 for n in range(10)}}, checkpoint="state")


@part
def search(data: Path) -> Facts:
    """One with one worker, its verdict and its effects."""
    made: Any = tune_cl.run(SPACE, name="real", storage=Path("searches").resolve())
    found: Facts = {"trials": points(made)}
    found["verdict"] = verdict_numbers(made.confirm(seeds=3))
    return found | {"effects": effect_numbers(made.effects(seeds=2, split="test"))}


@part
def samplers(data: Path) -> Facts:
    """Samplers and schedulers on an imagined training."""
    found: Facts = {}
    for name, asked in SEARCHES.items():
        given = {"storage": Path("searches").resolve(), "overrides": keys(asked)}
        made: Any = tune_cl.run(IMAGINED, objective=imagined, name=name, **given)
        found[name] = points(made)
    return found


def points(made: Any) -> Facts:
    """Of each trial its arm, point and result, and its curves without times."""
    curves = made.curves.drop(columns=["seconds", "samples_per_second"], errors="ignore")
    found: Facts = {}
    for row in made.trials.to_dict("records"):
        name = row["trial_id"]
        kept = {key: row[key] for key in ("arm", "twin", "dev", "iterations")}
        kept["best_iteration"] = row["iteration"]
        kept["point"] = {
            key: value for key, value in row.items() if "." in key and value is not None and value == value
        }
        kept["curves"] = curves[curves.trial_id == name].drop(columns="trial_id").to_dict("list")
        found[name] = kept
    return found


def verdict_numbers(verdict: Any) -> Facts:
    """The fields are those that were stored, in their order."""
    trials = {one.label: one.trial_id for one in (verdict.curriculum, *verdict.opponents)}
    values = {
        f"{trials[label]} seed {seed}": [rows.value.mean(), digest(rows.sort_values("query").value.tolist())]
        for (label, seed), rows in verdict.per_query.groupby(["label", "seed"])
    }
    tests = {
        " ".join(sorted(one.roles)): [one.trial_id, one.mean, one.sd, one.difference, one.p, *one.ci95]
        for one in verdict.opponents
    }
    selection = {one.trial_id: [*one.values, one.chosen] for one in verdict.selection}
    plain = {key: getattr(verdict, key) for key in ("verdict", "seeds", "queries", "clusters")}
    return {**plain, "values": values, "tests": tests, "selection": selection}


def effect_numbers(effects: Any) -> Facts:
    """Likewise."""
    by_value = {f"{one.key}={shown(one.value)}": [one.effect, *one.ci95, one.pairs] for one in effects.by_value}
    plain = {key: getattr(effects, key) for key in ("pairs", "mean", "sd_seeds", "ci95")}
    return {**plain, "by_value": by_value}


def shown(value: Any) -> str:
    """2 is 2.0."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)


# -- rankings without training -------------------------------------------------------------------------------------


@part
def baselines(data: Path) -> Facts:
    """Grids on dev, and what the best point gives on test; measures and tests of runs."""
    found: Facts = {}
    cacm, mediqa = data / "trec/cacm", data / "trec/mediqa"
    for name, source in (("bm25", cacm), ("sdm", cacm), ("embedding", cacm), ("bm25", mediqa)):
        for split in ("dev", "test"):
            ranked = tune_cl.baseline(source, name, split=split, tune=True)
            found[f"{name} {source.name} {split}"] = {"params": dict(ranked.params), "metrics": dict(ranked.metrics)}
    bm25 = tune_cl.baseline(cacm, "bm25", output="bm25.run")
    found["bm25 as it is"] = dict(bm25.metrics)
    metrics = ["map", "mrr@10", "p@1", "rprec", "ndcg@10", "R@20", "AP(rel=1)"]
    for run in tune_cl.evaluate(cacm / "qrels.test.txt", [cacm / "run.test.txt", "bm25.run"], metrics=metrics).runs:
        tests = {key: [one.difference, one.p, *one.ci95] for key, one in (run.vs_first or {}).items()}
        found[f"evaluate {Path(run.run).name}"] = {"metrics": dict(run.metrics), "vs_first": tests}
    return found


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
        yield path, None if facts != facts else facts  # NaN, which equals nothing


def compare(name: str, stored: Facts, found: Facts) -> bool:
    """Prints how a part differs; returns whether it is the same. What is not stored, such as a new data set, does not
    count."""
    before, now = dict(flat(stored, name)), dict(flat(found, name))
    failed = [path for path in now if path.endswith("/failed")]
    differing = failed + [path for path, value in before.items() if now.get(path) != value]
    print(f"{name}: {len(before)} values, {len(differing)} differ")
    for path in differing[:SHOWN]:
        print(f"  {path}: {before.get(path, 'nothing')}, now {now.get(path, 'nothing')}")
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
        found = json.dumps(PARTS[options.folder](data), default=lambda value: value.tolist())
        Path(f"{options.folder}.json").write_text(found)
        return 0
    here, same = machine(), True
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.only.split(","):
            file = Path(options.folder, f"{name}.json")
            stored = json.loads(file.read_text()) if options.action == "compare" else {"machine": {}}
            others = [key for key, value in stored["machine"].items() if here.get(key) != value]
            if others and name not in ON_EVERY_MACHINE:
                print(f"{name}: not comparable: stored with another {', '.join(others)}")
                continue
            found = compute(name, data, Path(temporary))
            if options.action == "compare":
                same &= compare(name, stored["facts"], found)
            else:
                write(file, here, found)
    return 0 if same else 1


def write(file: Path, here: dict[str, str], found: Facts) -> None:
    """A line for each row of a part, so that a diff shows which have changed."""
    rows = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    inner = ",\n".join(rows)
    file.write_text(f'{{"machine": {json.dumps(here)}, "facts": {{\n{inner}\n}}}}\n')


if __name__ == "__main__":
    sys.exit(main())
