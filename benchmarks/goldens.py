"""Do two checkouts of tune_cl give the same values, to the last digit? For changes that must change nothing.

    python benchmarks/goldens.py OLD NEW [--data ../shared/data] [--only quickstart,readers] [--allow 'report*']

OLD and NEW are checkouts. The code of both runs at the same time, with this Python, one thread each, in a folder and
with a cache of its own, and gives facts: values under paths such as `quickstart/trials/3/dev`. They come from what
users have: commands with --json, `import tune_cl`, and files that docs/reference describes. Differences under a path
that `--allow` names are told, and do not count.

OLD may also be a folder of facts, such as tests/goldens, which `--store FOLDER` writes: the parts stored there are
compared. Those of readers hold everywhere, the others with the same kind of processor and the same packages.

VOLATILE is left out, because no two runs have it in common: times and what follows from them (speeds, hours, the Pareto
set), ids, addresses, versions. Searches train one trial at a time, since what a sampler proposes depends on which
trials have ended. What was removed on purpose (REMOVED) may be missing in NEW, and what was added (ADDED) in OLD.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from html import unescape
from inspect import signature
from pathlib import Path
from typing import Any

from yaml import safe_load

import tune_cl
from trainables.config.keys import configuration_fields
from trainables.rankers import RANKERS
from tune_cl.confirmation.request import Request
from tune_cl.experiment.search_keys import SEARCH_KEYS

Facts = dict[str, Any]
PARTS: dict[str, Callable[[Path], Facts]] = {}
STORED = ("quickstart", "confirmation", "mlflow", "readers")
FORMS = Path(__file__).resolve().parents[1] / "tests/goldens/forms.json"
SHOWN, WIDTH = 20, 150  # differences of a part that are told, and characters of a value
REMOVED = (
    *("search.audit", "search.compare", "search.cost", "search.price", "search.repeats", "search.resources.shard"),
    *("search.stop_when", "curriculum.sampling", "curriculum.warm", "evaluation.smoothing", "cost_forecast"),
    *("training.window", "curriculum.weight_reduction", "ranker.unknown_deviation", "search.interval"),
    *("search.warm_discount", "pbt", "race", "outlook", "tune_cl.audit", "tune_cl.repeat_of"),
)
ADDED = (
    *("search.plain", "arm", "arms", "compares", "default", "selection", "fair", "teachers", "noise", "readings"),
    *("data.columns", "data.identical_ids", "data.query_clusters", "data.split", "data.strict", "data.words"),
    *("size", "trial_id", "each", "new_noise", "collapsed", "too_few_seeds", "clusters"),
)
VOLATILE = re.compile(
    r".*seconds.*|samples_per_second|.*_hours.*|.*hours_.*|.*pareto|paces|storage|tracking_uri|run_file|best_ranker"
    r"|mlflow\..*|mlflow_.*|tune_cl\.(versions|git_commit|search_id|key)"
)


def part(function: Callable[[Path], Facts]) -> Callable[[Path], Facts]:
    """Registers a part. It gets the folder of data sets, and runs in a folder that all parts of a checkout share."""
    PARTS[function.__name__] = function
    return function


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-P", "-m", "tune_cl", *map(str, arguments)]


def document(*arguments: object) -> Any:
    """What a command prints with --json. Raises RuntimeError if it fails."""
    done = subprocess.run(command(*arguments, "--json"), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tune-cl {arguments} ends with status {done.returncode}: {done.stderr[-3000:]}")
    return json.loads(done.stdout)


def digest(content: Any) -> str:
    """Of a file or of a value."""
    raw = content.read_bytes() if isinstance(content, Path) else json.dumps(content).encode()
    return sha256(raw).hexdigest()[:16]


def lines(table: str) -> Iterator[tuple[str, list[str]]]:
    """The name and the words of each line `NAME: WORD ...`."""
    for line in table.strip().splitlines():
        name, _, words = line.partition(":")
        yield name, words.split()


def keys(words: Iterable[str]) -> dict[str, Any]:
    """KEY=VALUE as a mapping; a value is YAML, as in --set."""
    return {key: safe_load(value) for key, _, value in (word.partition("=") for word in words)}


def where_known(settings: dict[str, Any]) -> list[str]:
    """The settings, as for --set, that the checkout has keys for: with them NEW does what OLD always does."""
    known = {*configuration_fields(RANKERS), *SEARCH_KEYS}
    return [f"{key}={value}" for key, value in settings.items() if key in known]


# -- a search, killed and not, its confirmation, MLflow's records and the report -----------------------------------

SHORT = "search.max_concurrent=1 training.batches_per_iteration=4 training.max_length=24"
QUICKSTART = Path(__file__).resolve().parents[1] / "tests/goldens/quickstart.yaml"  # as OLD ships it
RUN = ("run", QUICKSTART, "--trials", 9, "--max-iterations", 4)  # the sampler models from trial 7 on; two rungs
KILLED_AT = 13  # results


def search_in(storage: str) -> list[str]:
    given = [*SHORT.split(), *where_known({"data.query_clusters": "prefix:@@"})]  # each query for itself, as in OLD
    return command(*RUN, *(word for key in given for word in ("--set", key)), "--json", "--storage", storage)


def searched() -> tune_cl.Search:
    if not Path("whole/quickstart").exists():
        subprocess.run(search_in("whole"), check=True, stdout=subprocess.DEVNULL)
    return one_search(tune_cl.open_search("quickstart", "whole"))


def one_search(found: Any) -> tune_cl.Search:
    """What `run` and `open_search` return of data without folds."""
    assert isinstance(found, tune_cl.Search)
    return found


def confirmed() -> Facts:
    searched()
    if not (kept := Path("confirmed.json")).exists():
        every = ["--each"] if hasattr(Request, "each") else []  # as OLD always does
        confirm = ("confirm", "quickstart", "--storage", "whole", "--top", 2, *every)
        fixed, settled = document(*confirm, "--seeds", 3), document(*confirm, "--until-settled", "--max-seeds", 4)
        for each in (run for arm in (fixed["baseline"], *fixed["configurations"]) for run in arm["runs"]):
            each["ranking"] = digest(Path(each["run_file"]))
        kept.write_text(json.dumps({"fixed": fixed, "until settled": settled}))
    return json.loads(kept.read_text())


def facts_of(search: tune_cl.Search) -> Facts:
    tables = {"trials": search.trials.to_dict("records"), "curves": search.curves.to_dict("records")}
    best = {name: trial and vars(trial) for name, trial in (("best", search.best), ("baseline", search.baseline))}
    return {"document": search.document} | tables | best


@part
def quickstart(data: Path) -> Facts:
    return facts_of(searched())


@part
def killed(data: Path) -> Facts:
    """The same search, killed once and resumed. Raises AssertionError if anything differs from the unbroken one."""
    journal, nowhere = Path("killed/quickstart/journal.jsonl"), subprocess.DEVNULL
    running = subprocess.Popen(search_in("killed"), stdout=nowhere, stderr=nowhere, start_new_session=True)
    try:
        while not journal.exists() or journal.read_bytes().count(b'"event": "result"') < KILLED_AT:
            assert running.poll() is None, f"the search ended before it had {KILLED_AT} results"
            time.sleep(0.05)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)  # the search's own group; Ray's processes end with it
    running.wait()
    document("resume", "quickstart", "--storage", "killed")
    facts = facts_of(one_search(tune_cl.open_search("quickstart", "killed")))
    broken = dict(differences(flat(steady(facts_of(searched()))), flat(steady(facts))))
    assert not broken, f"the resumed search is another one: {broken}"
    return facts


@part
def confirmation(data: Path) -> Facts:
    return confirmed()


@part
def mlflow(data: Path) -> Facts:
    confirmed()
    from mlflow import MlflowClient

    client, found = MlflowClient(searched().tracking_uri), {}
    for run in client.search_runs([each.experiment_id for each in client.search_experiments()]):
        tags = {name: safe_load(text) if name == "tune_cl.yaml" else text for name, text in run.data.tags.items()}
        points = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
        found[" ".join(tags.get(f"tune_cl.{name}", "") for name in ("kind", "trial_id", "seed", "label"))] = {
            "name": run.info.run_name,
            "status": run.info.status,
            "tags": tags,
            "parameters": run.data.params,
            "metrics": {key: [(at.step, at.value) for at in of_key] for key, of_key in points.items()},
            "artifacts": {file.path: True for file in client.list_artifacts(run.info.run_id)},
        }
    return found


@part
def report(data: Path) -> Facts:
    """All numbers of at least three decimals that one reads, and the trials that are named: a new layout keeps them.
    Rows of hours are not facts."""
    from pandas import read_csv

    confirmed()
    write = {
        form: searched().report(Path(f"report.{form}").absolute(), progress=False) for form in ("html", "csv", "tex")
    }
    hidden = r"<(script|style|svg)\b.*?</\1>|<tr[^>]*>(?:(?!</tr>).)*hours.*?</tr>"
    page = unescape(re.sub(r"<[^>]*>", " ", re.sub(hidden, " ", write["html"].read_text(), flags=re.S)))
    seen = sorted(set(re.findall(r"(?<![\w.])[-+−]?\d*\.\d{3,}(?![\w.])|\bt\d{4}\b", page)))
    table = read_csv(write["csv"], dtype=str, keep_default_na=False).to_dict("records")
    return {"page": dict.fromkeys(seen, True), "csv": table, "latex": write["tex"].read_text().splitlines()}


# -- samplers and schedulers, on a training that costs nothing -----------------------------------------------------

SEARCHES = """
random none:
grid median: search.searcher=grid search.scheduler=median search.grace=2
tpe asha: search.searcher=tpe search.scheduler=asha
tpe asha without promotion: search.searcher=tpe search.scheduler=asha search.promotion=false
gp hyperband: search.searcher=gp search.scheduler=hyperband search.grace=none
cmaes model: search.searcher=cmaes search.scheduler=model
tpe model without promotion: search.searcher=tpe search.scheduler=model search.promotion=false
tpe iterations: search.searcher=tpe search.iterations=40
"""
SPACE = safe_load("""
curriculum:
  pacing: {choice: [linear, root]}
  n: {choice: [2, 5], when: {curriculum.pacing: root}}
  delta: {uniform: [0.2, 0.6], step: 0.1}
  T: {choice: [0.3, 0.6]}
parameters: {rate: {uniform: [0, 1], step: 0.25}}
training: {max_iterations: 8}
search: {trials: 14, startup_trials: 4, max_concurrent: 1, reduction_factor: 2}
metric: map
""")


def imagined(config: Any, trial: Any) -> None:
    """Values of a training that never took place: they rise, with an optimum at a rate of .7."""
    level = 1 - (config["parameters"]["rate"] - 0.7) ** 2 + 0.1 * config["curriculum"].get("delta", 0)
    cl = trial.curriculum(range(50), total_steps=8)
    for iteration in range(trial.iteration, 8):
        Path("state").mkdir(exist_ok=True)
        share = cl.share(iteration) * (1 - 0.5 ** (iteration + 1))
        drawn = sum(cl.batch(iteration, 4).tolist()) / 1000
        trial.report({"map": {f"q{n}": level * share + drawn + n / 50 for n in range(10)}}, checkpoint="state")


@part
def searches(data: Path) -> Facts:
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    found, one_arm = {}, where_known({"search.plain": 0})
    for name, words in lines(SEARCHES):
        where = {"name": "own", "storage": Path("searches", name).absolute()}
        search = tune_cl.run(SPACE, objective=imagined, overrides=keys([*words, *one_arm]), progress=False, **where)
        found[name] = facts_of(one_search(search))
    return found


# -- readers -------------------------------------------------------------------------------------------------------

EVERY = {"training.loss": "pointwise", "training.negatives": "all"}  # each candidate is an instance
ORDERS = "turns context_words response_words reciprocal_rank normalized_score"


def read(source: Path | str) -> dict[str, Facts]:
    """For each split what reading gives: ids, texts, labels at three levels of relevance, numbers of turns and words,
    and ranks and scores of the first stage. Features have labels alone; trainings read them."""
    return {split: read_split(source, split) for split in ("train", "dev", "test")}


def read_split(source: Path | str, split: str) -> Facts:
    try:
        rows, ranked = tune_cl.instances(source, split, EVERY), True
    except tune_cl.ConfigError:  # pairs to classify
        rows, ranked = tune_cl.instances(source, split), False
    except tune_cl.DataError:
        return {"instances": 0}
    facts: Facts = {name: digest(rows[name].tolist()) for name in ("query_id", "document_id", "label")}
    facts |= {name: digest(dict(zip(rows[f"{name}_id"], rows[name], strict=True))) for name in ("query", "document")}
    for level in (2, 3) if ranked else ():
        with suppress(tune_cl.DataError):  # no document has such a grade
            graded = tune_cl.instances(source, split, EVERY | {"evaluation.relevance_level": level})
            facts[f"label at {level}"] = digest(graded["label"].tolist())
    for scoring in ORDERS.split() if ranked else ():
        with suppress(tune_cl.DataError):  # features have neither words nor turns
            values = tune_cl.difficulty(source, scoring, split, EVERY).tolist()
            facts[scoring] = digest([round(value, 6) for value in values])
    return facts | {"instances": len(rows)}


def written(folder: Path) -> dict[str, Path]:
    """Every form of data, in a folder with a few rows."""
    for form, files in json.loads(FORMS.read_text()).items():
        for name, content in files.items():
            path = folder / form / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else b64decode(content["base64"]))
    return {f"form {path.name}": path for path in sorted(folder.iterdir())}


@part
def readers(data: Path) -> Facts:
    sets = {str(path.relative_to(data)): path for path in sorted(data.glob("*/*")) if path.is_dir()}
    found: Facts = {name: {"read": read(source)} for name, source in (sets | written(Path("forms"))).items()}
    for name, source in {**sets, "docstrings": "docstrings"}.items():
        described = document("data", source)
        found.setdefault(name, {})["data"] = described | {"examples": digest(described["examples"])}
    return found


# -- commands without a search, and curricula ----------------------------------------------------------------------

BAD = ("training.lr=fast", "curriculm.pacing=root", "search.trials=-1", "curriculum.delta={uniform: [0.5, 0.1]}")
PACINGS = "step linear root geometric quadratic cubic competence baby_steps one_pass adaptive"
LISTED = "rankers scorings pacings weightings losses subsets data baselines metrics corrections searchers schedulers"
SCORINGS = (
    "random turns context_words response_words semantic_std bm25_std model_margin model_loss el2n confidence "
    "variability crossfit_loss reciprocal_rank normalized_score kde"
)


@part
def commands(data: Path) -> Facts:
    small, metrics = data / "trec/cacm", ("--metrics", "map,mrr@10,p@1,rprec,ndcg@10,R@20,AP(rel=1)")
    pace = ("--n", 3, "--stages", 4, "--delta", 0.3, "--final-share", 0.9)
    found: Facts = {kind: {row["name"]: True for row in document("list", kind)} for kind in LISTED.split()}
    found |= {f"pace {pacing}": document("pace", pacing, *pace) for pacing in PACINGS.split()}
    for more in ((), ("--anti",), ("--m", "inf")):
        found[f"weigh {more}"] = document("weigh", "--difficulty", 0.25, *more)
    for name in ("bm25", "sdm", "embedding"):
        found[name] = document("baseline", small, name, "--tune", "--output", f"{name}.run")
        found[name]["ranking"] = digest(Path(f"{name}.run"))
    for correction in ("holm", "bh"):
        runs = (small / "qrels.test.txt", small / "run.test.txt", "bm25.run", "sdm.run")
        found[correction] = document("evaluate", *runs, *metrics, "--correction", correction)
    found["check"] = document("check", QUICKSTART, "--data", small)
    wrong = command("check", QUICKSTART, *(word for key in BAD for word in ("--set", key)))
    done = subprocess.run(wrong, capture_output=True, text=True, check=False)
    places = sorted(re.findall(r"^error: ([^:]*):", done.stderr, flags=re.M))
    return found | {"bad keys": {"status": done.returncode, "places": places}}


@part
def curricula(data: Path) -> Facts:
    """Difficulties, and what a curriculum in a loop of one's own gives."""
    found: Facts = {}
    for reference in ("paper", "code"):
        teacher = ["curriculum.teacher.max_iterations=2", ONE_TEACHER]
        overrides = keys([*TINY.split(), *teacher, "ranker.name=knrm", f"curriculum.reference={reference}"])
        for scoring in SCORINGS.split():
            values = tune_cl.difficulty(data / "trec/cacm", scoring, overrides=overrides)
            found[f"{scoring} {reference}"] = {"mean": values.mean(), "all": digest(values.tolist())}
    easy = [n * 37 % 101 for n in range(101)]
    for pacing in ("none", *PACINGS.split()[:-1]):
        more = {"n": 2, "delta": 0.3, "T": 0.7, "weighting": "difficulty", "m": 4, "anti": pacing == "root"}
        cl = tune_cl.Curriculum(easy, total_steps=40, pacing=pacing, seed=3, **more)
        found[f"loop {pacing}"] = [
            (cl.share(step), len(cl.available(step)), cl.batch(step, 8), cl.weights(range(5), step // 8))
            for step in range(0, 40, 3)
        ]
    return found


# -- trainings -----------------------------------------------------------------------------------------------------

TINY = "training.max_iterations=2 training.batches_per_iteration=4 training.batch_size=8 training.max_length=32"
PACED = "curriculum.pacing=linear curriculum.scoring=response_words curriculum.T=0.8"
WEIGHTED = "curriculum.weighting=normalized_score curriculum.m=2"
FIRST = "training.hard_negatives=first_stage"
ONE_TEACHER = "curriculum.teacher.seed=111"  # for all seeds, as in OLD
FAMILIES = {  # names, and the line of each
    "knrm conv_knrm drmm_tks match_pyramid bidaf_t embedding embedding_mlp": "{0}: trec/cacm {0}",
    PACINGS: f"pacing {{0}}: trec/cacm knrm {PACED} curriculum.delta=0.1 curriculum.n=3 curriculum.pacing={{0}}",
    "difficulty self_paced_linear self_paced_mixture reciprocal_rank normalized_score kde": (
        "weighting {0}: trec/cacm knrm curriculum.m=2 curriculum.weighting={0}"
    ),
    "pointwise mse pairwise hinge cross_entropy": (
        "loss {0}: trec/mediqa knrm evaluation.relevance_level=2 training.loss={0}"
    ),
    "softmax ranknet listnet lambdaloss": (
        f"loss {{0}}: trec/mediqa knrm training.negatives=3 {WEIGHTED} training.loss={{0}}"
    ),
    "margin_mse distill_kl cl_drd": (
        f"loss {{0}}: trec/mediqa knrm training.negatives=3 {WEIGHTED} {ONE_TEACHER} training.loss={{0}}"
    ),
    "swap random hard": "noise {0}: trec/cacm knrm data.label_noise.share=0.5 data.label_noise.kind={0}",
    "label_extremes relevant_count feature_ndcg": (
        "subset {0}: ltr/mq2008 lambdamart curriculum.subset={0} curriculum.switch=8"
    ),
}
TRAININGS = f"""
first stage: trec/cacm conv_knrm ranker.add_first_stage=true ranker.train_vectors=true
bert: trec/cacm bert {PACED} {WEIGHTED}
bert classification: trec/cacm bert ranker.head=classification training.loss=pointwise {PACED}
bert passages: trec/cacm bert ranker.passages=average ranker.document_length=60
bert lora: trec/cacm bert ranker.lora.rank=2 ranker.head_lr=0.01
bert layers: trec/cacm bert ranker.layer_decay=0.5 training.warmup=0.3
bert again: trec/cacm bert ranker.model=trainings/bert/ranker ranker.head=pretrained
bert of classes: pairs/sick bert data.train_share=0.05
decoder: trec/cacm decoder ranker.model=small-decoder training.max_length=300 data.top_k=3
bi_encoder: trec/cacm bi_encoder training.loss=softmax training.in_batch_negatives=true
bi_encoder retrieval: trec/cacm bi_encoder evaluation.retrieve=20 ranker.similarity=dot {PACED}
lambdamart: ltr/mq2008 lambdamart metric=ndcg@10
lambdamart mse: ltr/lightgbm-lambdarank lambdamart curriculum.objective_switch=mse curriculum.switch=8
lambdamart noise: ltr/mq2008 lambdamart data.label_noise.share=0.5 ranker.bagging_fraction=0.5
hinge of classes: pairs/sick embedding_mlp training.loss=hinge {PACED}
cross_entropy of classes: pairs/sick match_pyramid data.train_share=0.1
anti: trec/cacm knrm {PACED} {WEIGHTED} curriculum.anti=true curriculum.final_share=0.7
self-paced: trec/cacm knrm curriculum.pacing=linear curriculum.scoring=self_paced
teacher: trec/cacm knrm {ONE_TEACHER} {PACED} curriculum.scoring=model_loss curriculum.teacher.ranker=embedding_mlp
objective switch: trec/cacm knrm curriculum.objective_switch=mse curriculum.switch_at=0.5
all negatives: trec/cacm knrm {PACED} training.negatives=all
hard negatives: trec/cacm knrm {FIRST} training.negative_ranks=[2,9]
teacher's negatives: trec/cacm knrm training.hard_negatives=teacher {ONE_TEACHER}
ranks: trec/cacm knrm {FIRST} {PACED} curriculum.negatives.schedule=ranks
sources: trec/cacm knrm training.hard_negatives=teacher {ONE_TEACHER} curriculum.negatives.schedule=sources
weak labels: trec/cacm knrm data.weak_labels=bm25 data.candidates=bm25 data.top_k=20
average: trec/cacm knrm training.average=ema training.schedule=linear
micro-batches: trec/cacm conv_knrm training.micro_batch=3 training.clip=0.1 training.weight_decay=0.1
pretrained: trec/cacm knrm training.pretrain_data=DATA/answers/wikiqa training.pretrain_iterations=2
other metric: answers/wikiqa knrm metric=mrr@10 training.patience=1 seed=5 data.train_share=0.3
"""


@part
def trainings(data: Path) -> Facts:
    """Values on dev and test, the ranking of the test split, and the same by the ranker that was saved."""
    save_decoder(Path("small-decoder"))
    families = [line.format(name) for names, line in FAMILIES.items() for name in names.split()]
    table, found = "\n".join([*families, TRAININGS.strip()]).replace("DATA", str(data)), {}
    for name, (source, ranker, *words) in lines(table):
        given, overrides = data / source, keys([*TINY.split(), *words])
        asked: Any = {"test": True} if "test" in signature(tune_cl.train).parameters else {}  # OLD always reads it
        trained = tune_cl.train(None, given, ranker, overrides, Path("trainings", name), progress=False, **asked)
        again = tune_cl.load_ranker(trained.document["checkpoint"]).rerank(given, output=f"{name}.again")
        values = {"dev": trained.dev, "best": trained.best_iteration, "test": trained.test}
        found[name] = values | {"ranking": digest(Path(trained.run_file)), "ranking again": digest(again)}
    return found


def save_decoder(folder: Path) -> None:
    """A small Qwen3 with random weights."""
    import torch
    from tokenizers import Tokenizer, models, trainers
    from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3ForCausalLM

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = Qwen2Tokenizer(vocab={}, merges=[]).backend_tokenizer.pre_tokenizer
    letters = sorted({chr(n) for n in (*range(33, 127), *range(161, 324))})
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=letters, show_progress=False)
    words.train_from_iterator(["yes", "no", "<|im_start|> <|im_end|>\n", "which machine sorts"] * 50, trainer)
    model = json.loads(words.to_str())["model"]
    merges: Any = [tuple(pair) for pair in model["merges"]]
    tokenizer = Qwen2Tokenizer(vocab=model["vocab"], merges=merges)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    more = {"head_dim": 8, "intermediate_size": 64, "max_position_embeddings": 600, "tie_word_embeddings": True}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), **sizes, **more)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# -- collecting and comparing --------------------------------------------------------------------------------------


def collect(checkout: Path, parts: Iterable[str], data: Path, folder: Path) -> dict[str, Facts]:
    """The facts of a checkout, part by part, each in a process of its own. A part that fails has one: why."""
    folder.mkdir(parents=True)
    own = {"PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    fixed = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "MLFLOW_TRACKING_URI": ""}
    inner = [sys.executable, "-P", __file__, str(checkout), str(checkout), "--data", str(data), "--collect"]
    found: dict[str, Facts] = {}
    for name in parts:
        started, log, kept = time.monotonic(), folder / f"{name}.log", folder / f"{name}.json"
        with log.open("w") as file:
            done = subprocess.run([*inner, name], cwd=folder, env=os.environ | own | fixed, stdout=file, stderr=file)
        found[name] = {"failed": log.read_text()[-3000:]} if done.returncode else json.loads(kept.read_text())
        print(f"{checkout} {name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return found


def collect_here(checkout: Path, name: str, data: Path) -> None:
    """Writes the facts of a part, in a process that `collect` has started."""
    used = Path(str(tune_cl.__file__)).resolve()
    assert used.is_relative_to(checkout.resolve()), f"{used} is not of {checkout}"
    facts = json.dumps(steady(PARTS[name](data)), default=lambda value: value.tolist(), sort_keys=True)
    for folder, shown in ((data, "DATA"), (Path.cwd(), "FOLDER")):
        facts = facts.replace(str(folder), shown)
    Path(f"{name}.json").write_text(facts + "\n")


def steady(facts: Any) -> Any:
    """What is not VOLATILE."""
    if isinstance(facts, list | tuple):
        return [steady(value) for value in facts]
    if isinstance(facts, dict):
        return {key: steady(value) for key, value in facts.items() if not VOLATILE.fullmatch(str(key))}
    return facts


def flat(facts: Any, path: str = "") -> dict[str, str]:
    """The values of a document by their paths, as JSON."""
    if isinstance(facts, dict | list):
        items = facts.items() if isinstance(facts, dict) else enumerate(facts)
        return {inner: text for key, value in items for inner, text in flat(value, f"{path}/{key}").items()}
    return {path.removeprefix("/"): json.dumps(facts, default=lambda value: value.tolist())}


def differences(old: Facts, new: Facts) -> Iterator[tuple[str, tuple[str, str]]]:
    """Paths with both values, where these differ; what was removed or added on purpose does not count."""
    for path in dict.fromkeys([*old, *new]):
        meant = (path not in new and has_part(path, REMOVED)) or (path not in old and has_part(path, ADDED))
        if old.get(path) != new.get(path) and not meant:
            yield path, (old.get(path, "nothing"), new.get(path, "nothing"))


def has_part(path: str, names: Iterable[str]) -> bool:
    dotted = f".{path.replace('/', '.')}."
    return any(f".{name}." in dotted for name in names)


def compare(name: str, old: Facts, new: Facts, allowed: Iterable[str]) -> bool:
    """Tells how a part differs; returns whether it may."""
    if failed := {which: each["failed"] for which, each in (("OLD", old), ("NEW", new)) if "failed" in each}:
        print(*(f"{name}: {which} failed:\n{why}" for which, why in failed.items()))
        return False
    facts, found = flat(old, name), list(differences(flat(old, name), flat(new, name)))
    noted = {path for path, _ in found if any(fnmatchcase(path, pattern) for pattern in allowed)}
    print(f"{name}: {len(facts)} facts, {len(found) - len(noted)} differ" + f", {len(noted)} allowed" * bool(noted))
    for path, values in found[:SHOWN]:
        before, after = (value if len(value) <= WIDTH else f"{value[:WIDTH]}..." for value in values)
        print(f"  {'allowed: ' * (path in noted)}{path}: {before}, now {after}")
    if len(found) > SHOWN:
        print(f"  and {len(found) - SHOWN} more")
    return len(noted) == len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a checkout, or a folder of stored facts")
    parser.add_argument("new", type=Path, help="a checkout")
    parser.add_argument("--data", type=Path, help="the data sets; default: ../shared/data beside NEW")
    parser.add_argument("--only", type=lambda names: names.split(","), help=", ".join(PARTS))
    parser.add_argument("--allow", action="append", default=[], metavar="PATH", help="may differ; with * for anything")
    parser.add_argument("--store", type=Path, metavar="FOLDER", help=f"write OLD's facts: {', '.join(STORED)}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder, for all that is made and logged")
    parser.add_argument("--collect", help=argparse.SUPPRESS)
    options = parser.parse_args()
    data = (options.data or options.new.resolve().parent / "shared/data").resolve()
    if options.collect:
        collect_here(options.old, options.collect, data)
        return 0
    return compared(options, data)


def compared(options: argparse.Namespace, data: Path) -> int:
    """Collects the facts of both and compares them; returns the exit status."""
    stored = {name: json.loads(path.read_text()) for name in STORED if (path := options.old / f"{name}.json").exists()}
    parts = [name for name in options.only or PARTS if not stored or name in stored]
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as pool:
        folder = (options.keep or Path(temporary)).resolve()
        new = pool.submit(collect, options.new.resolve(), parts, data, folder / "new")
        old = stored or pool.submit(collect, options.old.resolve(), parts, data, folder / "old").result()
        same = [compare(name, old[name], new.result()[name], options.allow) for name in parts]
    for name in set(STORED).intersection(parts) if options.store else ():
        (options.store / f"{name}.json").write_text(json.dumps(old[name], sort_keys=True) + "\n")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
