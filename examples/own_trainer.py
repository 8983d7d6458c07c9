"""Does a curriculum help CrossEncoderTrainer on my data? Search, new seeds, verdict: python own_trainer.py DATA

DATA is any data that tune_cl reads: a folder of TREC, BEIR or triples, docstrings, ir_datasets:NAME."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from datasets import Dataset
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from transformers import TrainerCallback

import tune_cl

BATCH, STEPS = 16, 8  # of an iteration
EVERY_CANDIDATE = {"training.loss": "pointwise", "training.negatives": "all"}
SPACE = {
    "curriculum": {
        "pacing": {"choice": ["linear", "root", "geometric"]},
        "scoring": {"choice": ["length", "bm25"]},
        "delta": {"uniform": [0.2, 0.6]},
    },
    "parameters": {
        "model": "cross-encoder/ms-marco-MiniLM-L6-v2",
        "max_length": 128,
        "lr": {"loguniform": [1e-5, 1e-3]},
    },
    "training": {"max_iterations": 5},
    "search": {"searcher": "tpe", "scheduler": "asha", "trials": 12},
    "metric": "map",
}


def average_precision(relevant):
    ranks = np.flatnonzero(relevant) + 1
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0


def values_by_query(model, data, split):
    rows = tune_cl.instances(data, split, EVERY_CANDIDATE)
    rows["score"] = model.predict(list(zip(rows["query"], rows["document"], strict=True)), show_progress_bar=False)
    ranked = rows.sort_values("score", ascending=False, kind="stable")
    return {query: average_precision(group["label"].to_numpy() > 0) for query, group in ranked.groupby("query_id")}


class CurriculumTrainer(CrossEncoderTrainer):
    curriculum = None

    def get_batch_sampler(self, dataset, batch_size, **options):
        return self.curriculum.batch_sampler(batch_size)


class Reports(TrainerCallback):
    """Reports to the search after each of the trainer's own saves, which hold all that it needs to go on."""

    def __init__(self, trial, model, data):
        self.trial, self.model, self.data = trial, model, data

    def on_save(self, arguments, state, control, **options):
        values = values_by_query(self.model, self.data, "dev")
        folder = Path(arguments.output_dir) / f"checkpoint-{state.global_step}"
        self.trial.report({"map": values, "train_loss": state.log_history[-1]["loss"]}, checkpoint=folder)


def train(config, trial):
    data, parameters = config["data"], config["parameters"]
    if trial.split:  # the search asks for the values of a split by the best checkpoint
        return values_by_query(CrossEncoder(str(trial.checkpoint)), data, trial.split)
    model = CrossEncoder(parameters["model"], num_labels=1, max_length=parameters["max_length"])
    rows = tune_cl.instances(data, overrides=EVERY_CANDIDATE)
    difficulty = {
        "length": rows["document"].str.len().to_numpy(),
        "bm25": tune_cl.difficulty(data, "bm25_std", overrides=EVERY_CANDIDATE),
    }
    steps = config["training"]["max_iterations"] * STEPS
    with TemporaryDirectory() as folder:
        arguments = CrossEncoderTrainingArguments(
            folder,
            max_steps=steps,
            save_steps=STEPS,
            logging_steps=STEPS,
            save_total_limit=1,
            per_device_train_batch_size=BATCH,
            learning_rate=parameters["lr"],
            seed=trial.seed,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = CurriculumTrainer(
            model,
            arguments,
            Dataset.from_pandas(rows[["query", "document", "label"]]),
            loss=BinaryCrossEntropyLoss(model),
            callbacks=[Reports(trial, model, data)],
        )
        trainer.curriculum = trial.curriculum(difficulty, total_steps=steps)
        trainer.train(resume_from_checkpoint=str(trial.checkpoint) if trial.checkpoint else None)
    return None


if __name__ == "__main__":
    search = tune_cl.run(SPACE, objective=train, data=sys.argv[1], name="own-trainer")
    print(search.confirm(seeds=5).table)
