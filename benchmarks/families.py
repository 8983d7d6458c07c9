"""Training rankers over families of models beside BERT: us against the trainers of sentence-transformers.

    python benchmarks/families.py ../shared/data/answers/wikiqa [--steps 8] [--repeats 3] [--threads 2]
                                  [--device cuda] [--json]

Random models, 4 layers and 256 wide, whose folders both read, in fp32: a bi-encoder of a Qwen3 (last token) and of a T5
encoder (mean) with in-batch negatives (`bi_encoder.py`), batches of 32 queries; and a Llama with one logit as a
cross-encoder, cross-entropy, batches of 32 pairs (`bert_training.py`). Texts and pairs have at most 128 tokens. Ends in
an error if mean losses differ by more than a fifth. Needs the extra `bench`.
"""

from __future__ import annotations

import os
import sys
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
from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]  # of `bench`
from sentence_transformers.sentence_transformer.modules import (  # pyright: ignore[reportMissingImports]  # likewise
    Pooling,
    Transformer,
)
from side_by_side import Comparison, tell
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from trainables.rankers.encoders import training_texts
from trainables.training.trainer import Training

WIDE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 768}
T5 = {"d_model": 256, "num_layers": 4, "num_heads": 8, "d_kv": 32, "d_ff": 768, "dropout_rate": 0.1}
SPECIAL = ("<pad>", "</s>")


def tokenizer_of(training: Training) -> Any:
    """A byte-level tokenizer of the training texts, which ends each text, or pair, with </s>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learner = trainers.BpeTrainer(
        vocab_size=8000, special_tokens=[*SPECIAL], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(training_texts(training.prepared.data), learner)
    end = (SPECIAL[1], 1)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[end]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=SPECIAL[0], eos_token=SPECIAL[1], model_max_length=LENGTH
    )


def saved(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sentences(model: Any, tokenizer: Any, pooling: str, folder: Path) -> str:
    """A SentenceTransformer's folder."""
    part = Transformer(str(saved(model, tokenizer, folder / "model")), max_seq_length=LENGTH)
    SentenceTransformer(modules=[part, Pooling(part.get_embedding_dimension(), pooling)], device="cpu").save(
        str(folder / "whole")
    )
    return str(folder / "whole")


def pairs_training(data: str, model: str, steps: int, device: torch.device) -> Training:
    keys = {"ranker.name": "decoder", "ranker.model": model}
    return bert_training.our_training(data, None, steps, "fp32", device, keys)


def compared_pairs(training: Training, device: torch.device, repeats: int, work: str, peer: str) -> tuple[Any, str]:
    with TemporaryDirectory() as folder:
        model = training.run.ranker["model"]
        both = {OURS: bert_training.ours(training), THEIRS: bert_training.theirs(False, Path(folder), device, model)}
        turns = bert_training.rounds(both, training, repeats)
    taken = [[turn.seconds for turn in turns[name]] for name in (OURS, THEIRS)]
    return Comparison(work, peer, *taken), "; ".join(bert_training.differences(turns))


def main() -> int:
    options = parsed(__doc__)
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    device, problems = required_device(options.device), []
    peer = f"sentence-transformers {version('sentence-transformers')}"
    texts = bi_encoder.our_training(options.data, options.steps, device, "tiny")
    tokenizer = tokenizer_of(texts)
    ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    qwen = transformers.Qwen3Config(**WIDE, **ids, num_key_value_heads=4, head_dim=32)
    llama = transformers.LlamaConfig(**WIDE, **ids, num_key_value_heads=4, num_labels=1)
    t5 = transformers.T5Config(**T5, vocab_size=len(tokenizer))
    with TemporaryDirectory() as place:
        at = Path(place)
        folders = {
            "bi-encoder of a Qwen3, last token": sentences(
                transformers.Qwen3Model(qwen), tokenizer, "lasttoken", at / "qwen"
            ),
            "bi-encoder of a T5 encoder": sentences(transformers.T5EncoderModel(t5), tokenizer, "mean", at / "t5"),
            "Llama with one logit": str(
                saved(transformers.LlamaForSequenceClassification(llama), tokenizer, at / "llama")
            ),
        }
        for what, folder in folders.items():
            embeds = what.startswith("bi-encoder")
            work = f"{what}, {options.steps} steps of {PAIRS} {'queries' if embeds else 'pairs'}, fp32"
            if embeds:
                training = bi_encoder.our_training(options.data, options.steps, device, folder)
                compared = bi_encoder.compared_training
            else:
                training = pairs_training(options.data, folder, options.steps, device)
                compared = compared_pairs
            comparison, wrong = compared(training, device, options.repeats, work, peer)
            tell(comparison, options.json)
            problems += [f"{what}: {wrong}"] if wrong else []
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
