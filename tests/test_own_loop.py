"""The loops of docs/how-to/own-loop.md, as the page has them, in the libraries that they are for."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tune_cl
from tests.support.builders import tiny_data
from tests.support.encoder_folders import save_encoder
from tests.support.trec_folder import write_trec_folder

PAGE = Path(__file__).resolve().parents[1] / "docs/how-to/own-loop.md"
BLOCK = re.compile(r'^```python title="([\w-]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
BLOCKS = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
TRAINERS = ("cross-encoder", "sentence-transformer", "transformers")
STEPS, BATCH = 8, 4
SMALLER = {"600": str(STEPS), "(16)": f"({BATCH})", "// 100": "// 2"}


def block(title: str) -> str:
    """A block of the page, of a small training: 8 steps of 4 samples, 2 steps an iteration."""
    code = BLOCKS[title]
    for shown, small in SMALLER.items():
        code = code.replace(shown, small)
    return code


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Names of a program that has read the page up to its first loop."""
    write_trec_folder(tiny_data(), tmp_path / "mydata")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"tune_cl": tune_cl}
    exec(block("difficulty"), names)
    # Each row its own difficulty, so that a sample's ease tells its row.
    names["difficulty"] = names["difficulty"] + np.arange(len(names["rows"])) / 1000
    exec(block("curriculum"), names)
    return names


def test_instances_and_their_difficulty_belong_together(page: dict[str, Any]) -> None:
    rows = page["rows"]
    assert len(rows) == len(page["difficulty"]) == len(page["cl"]) == 32
    assert set(rows["label"]) == {0.0, 1.0} and rows["document"].notna().all() and rows["negative"].isna().all()
    pairs = tune_cl.instances("mydata", overrides={"training.negatives": "all", "training.loss": "pairwise"})
    assert pairs["negative"].notna().all() and (pairs["label"] == 1).all()
    assert tune_cl.instances("mydata")["negative"].isna().all()  # drawn at each use


def test_the_plain_loop_trains_on_the_steps_batches_with_their_weights(page: dict[str, Any]) -> None:
    numbers = torch.arange(32.0)
    seen: list[Any] = []

    def loss_of_each(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen.append(labels.int().tolist())
        return (scores[:, 0] - labels) ** 2

    model = nn.Linear(1, 1)
    page |= {
        "torch": torch,
        "DataLoader": DataLoader,
        "dataset": TensorDataset(numbers[:, None], numbers),
        "loss_of_each": loss_of_each,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), 1e-4),
    }
    before = model.weight.item()
    exec(block("pytorch"), page)
    assert seen == list(page["cl"].batch_sampler(BATCH)) and model.weight.item() != before
    assert page["weights"].tolist() == page["cl"].weights(seen[-1], 3).tolist()


# -- trainers --------------------------------------------------------------------------------------------------------


def cross_encoder(page: dict[str, Any], folder: Path) -> dict[str, Any]:
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    save_encoder("bert", folder)
    texts = page["rows"][["query", "document", "label"]]
    return {
        "CrossEncoderTrainer": CrossEncoderTrainer,
        "BinaryCrossEntropyLoss": BinaryCrossEntropyLoss,
        "model": CrossEncoder(str(folder), num_labels=1),
        "dataset": Dataset.from_pandas(texts, preserve_index=False),
        "arguments": CrossEncoderTrainingArguments(**arguments(folder)),
    }


def sentence_transformer(page: dict[str, Any], folder: Path) -> dict[str, Any]:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    save_encoder("bert", folder)
    texts = page["rows"][["query", "document", "label"]]
    return {
        "torch": torch,
        "SentenceTransformerTrainer": SentenceTransformerTrainer,
        "CosineSimilarityLoss": CosineSimilarityLoss,
        "model": SentenceTransformer(str(folder)),
        "dataset": Dataset.from_pandas(texts, preserve_index=False),
        "arguments": SentenceTransformerTrainingArguments(**arguments(folder)),
    }


def plain_transformers(page: dict[str, Any], folder: Path) -> dict[str, Any]:
    import transformers
    from datasets import Dataset

    tokenizer = save_encoder("bert", folder)
    rows = page["rows"]
    inputs = tokenizer(list(rows["query"]), list(rows["document"]), truncation=True, max_length=48, padding=True)
    return {
        "Trainer": transformers.Trainer,
        "DataLoader": DataLoader,
        "cross_entropy": nn.functional.cross_entropy,
        "model": transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2),
        "dataset": Dataset.from_dict({**inputs, "labels": rows["label"].astype(int)}),
        "arguments": transformers.TrainingArguments(**arguments(folder)),
    }


def arguments(folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder / "out"),
        "num_train_epochs": 1,
        "per_device_train_batch_size": BATCH,
        "save_steps": 3,
        "logging_steps": 1,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "learning_rate": 1e-3,
    }


OWN = dict(zip(TRAINERS, (cross_encoder, sentence_transformer, plain_transformers), strict=True))


def trained(title: str, page: dict[str, Any], folder: Path, resume: bool | str = False) -> tuple[list[Any], Any]:
    """The rows of each batch that the loss of a trainer saw; and the trainer."""
    names = page | OWN[title](page, folder)
    dev = names["dataset"]
    exec(block(title), names)
    rank = {round(float(ease), 6): row for row, ease in enumerate(page["cl"].ease)}
    seen: list[Any] = []

    def note(_: Any, args: tuple[Any, ...]) -> None:
        pairs = torch.stack(args[1]) if isinstance(args[1], list) else args[1]
        if pairs.ndim > 1:
            seen.append([rank[round(float(ease), 6)] for ease in pairs[:, 1]])

    names["loss"].register_forward_pre_hook(note)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names["trainer"].train(resume_from_checkpoint=resume)
        assert 0 < names["trainer"].evaluate(dev)["eval_loss"] < 2  # labels as they were
    return seen, names["trainer"]


@pytest.mark.slow
@pytest.mark.parametrize("title", TRAINERS)
def test_a_trainer_gets_the_batches_of_the_curriculum_also_after_a_stop(
    title: str, page: dict[str, Any], tmp_path: Path
) -> None:
    whole, trainer = trained(title, page, tmp_path / "model")
    assert whole == list(page["cl"].batch_sampler(BATCH))
    assert trainer.state.global_step == STEPS
    rest, resumed = trained(title, page, tmp_path / "model", resume=str(tmp_path / "model/out/checkpoint-3"))
    assert rest == whole[3:]
    theirs = dict(resumed.model.named_parameters())
    for name, weight in trainer.model.named_parameters():
        assert torch.allclose(weight, theirs[name], atol=1e-6), name
