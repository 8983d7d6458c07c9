"""Searches to report on, as journals and files, without training anything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.confirm_documents import configuration, made_verdict, opponent
from tests.support.data_folders import write_folder
from tests.support.journal_events import search_event
from trainables.core.randomness import generator
from trainables.data import load_data
from trainables.evaluation.metrics import METRICS
from trainables.evaluation.trec_files import write_per_query
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.results import Arm, Candidate, Configuration, LabelFree, Verdict
from tune_cl.search.driver import trial_id
from tune_cl.verdict.files import verdict_file

QUERIES = 12
HOSTILE = "</script><script>alert(1)</script> <img src=http://evil.example/x onerror='alert(2)'> & \"quoted\""
SPACE = """
data: {folder}
ranker: conv_knrm
curriculum:
  pacing: {{choice: [linear, root, geometric]}}
  n: {{choice: [2, 5], when: {{curriculum.pacing: root}}}}
  delta: {{uniform: [0.1, 0.9]}}
  scoring: {{choice: [turns, context_words, random]}}
  T: 0.5
training: {{max_iterations: 8}}
search: {{searcher: random, trials: 16, scheduler: asha, reduction_factor: 2, grace: curriculum}}
"""


def data_folder(folder: Path) -> Path:
    """A TREC folder whose texts try to break out of the page."""
    files = {"collection.tsv": f"r\tthe right one {HOSTILE}\nw\tthe wrong one\n"}
    for split in ("train", "dev", "test"):
        names = [f"{split}-{i}" for i in range(QUERIES)]
        files[f"queries.{split}.tsv"] = "".join(f"{q}\t{'word ' * (i + 1)}{HOSTILE}\n" for i, q in enumerate(names))
        files[f"qrels.{split}.txt"] = "".join(f"{q} 0 r 1\n{q} 0 w 0\n" for q in names)
    return write_folder(folder, files)


def shown_verdict(label: str = f"root n=2, turns {HOSTILE}", **other: Any) -> Verdict:
    """A curriculum that is above plain training and not above its own settings without it."""
    twin = opponent("twin", difference=0.015, p=0.093, label="plain lr=0.01", params={"training.lr": 0.01})
    champion = opponent("champion", "default", difference=0.1, p=0.0011, label="plain, default")
    curriculum = Configuration(**configuration(label, 0.52, "t0001", **{"curriculum.pacing": "root"}))
    arms: dict[Arm, Configuration] = {"plain": champion, "curriculum": curriculum}
    selection = tuple(
        Candidate(arm=arm, trial_id=one.trial_id, label=one.label, values=(0.4, 0.42), mean=0.41, chosen=True)
        for arm, one in arms.items()
    )
    shown: dict[str, Any] = {"curriculum": curriculum, "selection": selection, "verdict": "no difference shown"}
    shown |= {"queries": 120, "clusters": 118, "first_stage": LabelFree(label="BM25", mean=0.47)}
    return made_verdict(twin, champion, **shown | other)


class Case:
    """A search, made trial by trial by `add` and written by `write`."""

    def __init__(self, folder: Path, name: str = "toy", space: str = SPACE):
        path = folder / f"{name}.yaml"
        path.write_text(space.format(folder=data_folder(folder / "data")))
        self.experiment: Experiment = load_experiment(str(path))
        self.search_folder = SearchFolder((folder / "runs").resolve(), name)
        self.events: list[Any] = [self._search()]
        self.time = 0.0

    def _search(self) -> dict[str, Any]:
        data = load_data(base_ranker(self.experiment).data)
        read = {"name": data.name, "digest": data.digest}
        folder = self.search_folder
        return search_event(self.experiment, folder.storage, folder.name, data=read, versions={"torch": "2.13.0"})

    def add(
        self, dev: list[float], outcome: str | None = None, reason: str | None = None, lr: float | None = None
    ) -> str:
        """Adds a trial with these dev values; the first one is the baseline. With outcome None it still runs. `lr`: of
        a plain trial."""
        number = sum(event["event"] == "trial" for event in self.events)
        trial, baseline = trial_id(number), number == 0
        draw = self.experiment.space.sample(generator(7, "report trial", number))
        choice = draw if lr is None else {"curriculum.pacing": "none", "training.lr": lr}
        if baseline:
            choice = self.experiment.base.point | {"curriculum.pacing": "none"}
        run = self.experiment.config(choice).run
        told = {"chosen": choice, "seed": 0, "baseline": baseline, "arm": "plain" if baseline or lr else "curriculum"}
        self._tell("trial", trial, number=number, params=run.in_force(), **told)
        for iteration, value in enumerate(dev, 1):
            metrics = {"dev_map": value, "train_loss": 1.0, "available_share": min(1.0, iteration / 4), "seconds": 1.0}
            self._tell("result", trial, iteration=iteration, metrics=metrics)
        if outcome:
            artifacts = str(self.per_query(trial, "dev", number).parent) if outcome != "failed" else None
            self._tell("end", trial, outcome=outcome, reason=reason, artifacts=artifacts, best=None)
        return trial

    def _tell(self, event: str, trial: str, **other: Any) -> None:
        self.time += 1
        self.events.append({"event": event, "trial": trial, "time": self.time, **other})

    def per_query(self, folder: str, split: str, seed: int) -> Path:
        """Random values for each query, as trials and confirmations leave them."""
        path = self.search_folder.folder / "trials" / folder / f"{split}.per_query.tsv"
        values = generator(seed, "per query").random(QUERIES)
        write_per_query(path, [f"{split}-{i}" for i in range(QUERIES)], dict.fromkeys(METRICS, values))
        return path

    def finish(self) -> None:
        cost = {"iterations": 9, "cpu_hours": 0.5, "gpu_hours": 0.0}
        self.events.append({"event": "search_end", "best": None, "cost": cost, "seconds": 9.0, "time": self.time + 1})

    def confirm(self, **other: Any) -> Verdict:
        """Writes a verdict on three seeds; `other`: of `shown_verdict`."""
        place = {"search": self.search_folder.name, "storage": str(self.search_folder.storage)}
        verdict = shown_verdict(**place | other)
        path = verdict_file(self.search_folder.folder, verdict.split)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(verdict.model_dump_json())
        return verdict

    def write(self) -> SearchFolder:
        with Journal(self.search_folder.folder) as journal:
            for event in self.events:
                journal.append(event)
        return self.search_folder


def whole(folder: Path, others: int = 14) -> Case:
    """A search with everything there may be: completed, stopped, failed and running trials, NaN, another metric."""
    case = Case(folder)
    case.add([0.30, 0.40, 0.45, 0.44, 0.43, 0.42, 0.41, 0.40], "baseline")
    random = generator(3, "report curves")
    for i in range(others):
        dev = (0.3 + 0.02 * np.arange(8) + random.normal(0, 0.03, 8)).tolist()
        case.add(dev[:4] if i % 4 == 3 else dev, "stopped_early" if i % 4 == 3 else "completed")
    case.add([0.2, math.nan], "failed", f"the loss became nan {HOSTILE}")
    case.add([math.nan, math.nan], "completed")
    case.add([0.3])
    case.finish()
    return case
