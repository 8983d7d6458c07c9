"""Training of other kinds of models than BERT: us against sentence-transformers' trainers.

    python benchmarks/families.py ../shared/data/answers/wikiqa [--steps 8] [--repeats 3] [--threads 2]
                                  [--device cuda] [--json]

Small models with random weights, made here: four layers, 256 wide, with a WordPiece vocabulary of 8,000 of the training
texts. Bi-encoders (Qwen3 pooled by its last token, the encoder of T5, a StaticEmbedding) train as in bi_encoder.py, and
a Llama with one logit as in bert_training.py, in fp32. Ends in an error if the work was not the same. Needs the extra
`bench`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import bert_training
import bi_encoder
import torch
import transformers
from bert_training import LENGTH, OURS, PAIRS, THEIRS, parsed
from devices import required_device
from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from sentence_transformers.sentence_transformer.modules import (  # pyright: ignore[reportMissingImports]  # of `bench`
    Pooling,
    StaticEmbedding,
    Transformer,
)
from side_by_side import Comparison, tell
from tokenizers import Tokenizer

from trainables.data import load_data
from trainables.data.settings import DataConfig
from trainables.rankers.wordpiece import train_wordpiece, training_texts

WORDS, WIDTH, LAYERS, HEADS = 8000, 256, 4, 4
SIZES: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS, "head_dim": WIDTH // HEADS, "intermediate_size": 4 * WIDTH, "pad_token_id": 0,
    "max_position_embeddings": 512,
}  # fmt: skip


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
    sizes: dict[str, Any] = {
        "d_model": WIDTH,
        "d_kv": WIDTH // HEADS,
        "d_ff": 4 * WIDTH,
        "num_layers": LAYERS,
        "num_heads": HEADS,
    }
    config = transformers.T5Config(vocab_size=WORDS, pad_token_id=0, **sizes)
    pooled(transformers.T5EncoderModel(config), "mean", tokenizer, folder)


def table(tokenizer: Tokenizer, folder: Path) -> None:
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.enable_truncation(LENGTH)
    first = StaticEmbedding(tokenizer, embedding_dim=WIDTH)
    SentenceTransformer(modules=[first], device="cpu").save_pretrained(str(folder))


def llama(tokenizer: Tokenizer, folder: Path) -> None:
    sizes: dict[str, Any] = SIZES | {"num_labels": 1}
    config = transformers.LlamaConfig(**sizes)
    saved(transformers.LlamaForSequenceClassification(config), tokenizer, folder)


def reranker(data: str, folder: Path, steps: int, device: torch.device, repeats: int) -> tuple[list[list[float]], str]:
    """Seconds of our turns and of the peer's, and in what respect their work differed."""
    ranker = {"ranker.name": "bert", "ranker.model": str(folder), "ranker.head": "pretrained"}
    source = bert_training.our_training(data, None, steps, "fp32", device, ranker)
    with TemporaryDirectory() as place:
        peer = bert_training.theirs(False, Path(place), device, str(folder))
        turns = bert_training.rounds({OURS: bert_training.ours(source), THEIRS: peer}, source, repeats)
    taken = [[turn.seconds for turn in turns[name]] for name in (OURS, THEIRS)]
    return taken, "; ".join(bert_training.differences(turns))


def encoder(data: str, folder: Path, steps: int, device: torch.device, repeats: int) -> tuple[list[list[float]], str]:
    """As `reranker`, of a bi-encoder."""
    training = bi_encoder.our_training(data, steps, device, str(folder))
    comparison, wrong = bi_encoder.compared_training(training, device, repeats, "", "")
    return [comparison.ours, comparison.peer], wrong


FAMILIES: dict[str, tuple[Callable[[Tokenizer, Path], None], Callable[..., tuple[list[list[float]], str]]]] = {
    "Qwen3 bi-encoder, last token": (qwen3, encoder),
    "T5 encoder, mean": (t5, encoder),
    "StaticEmbedding": (table, encoder),
    "Llama reranker, one logit": (llama, reranker),
}


def main() -> int:
    options = parsed(__doc__)
    device, name = required_device(options.device), Path(options.data).name
    tokenizer = train_wordpiece(training_texts(load_data(DataConfig(source=options.data))), WORDS)
    against, problems = f"sentence-transformers {version('sentence-transformers')}", []
    for family, (make, compared) in FAMILIES.items():
        torch.manual_seed(0)
        with TemporaryDirectory() as folder:
            make(tokenizer, Path(folder))
            taken, wrong = compared(options.data, Path(folder), options.steps, device, options.repeats)
        unit = "pairs" if compared is reranker else "queries"
        work = f"{family} on {name}, {options.steps} steps of {PAIRS} {unit}, fp32"
        tell(Comparison(work, against, *taken), options.json)
        problems += [f"{family}: {wrong}"] if wrong else []
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
