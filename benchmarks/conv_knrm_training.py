"""Training ConvKNRM, batches included: us against MatchZoo-py's data loader and model.

    pip install --no-deps matchzoo-py==1.1.1     (make bench does; what it imports is in the extra `bench`)
    python benchmarks/conv_knrm_training.py ../shared/data/answers/wikiqa [--steps 30] [--repeats 5]
                                            [--device cuda] [--json]

In each repeat both train 30 steps of 32 pairs on the same texts with the same word vectors (frozen), 128 filters, 1- to
3-grams with cross-match, 11 kernels, hinge loss, Adam, queries cut at 20 and documents at 60 words. MatchZoo-py pads a
batch to its longest text, draws new pairs once an epoch (about once per repeat) and has separate filters for queries;
it applies relu after the filters and log1p in the pooling, where we do as MacAvaney et al. do. Ends in an error if
either loss does not fall. MatchZoo-py's other requirements cannot be installed beside a current pandas, so it is
installed without them: the names that it needs from older Pythons and NumPys are set before it is imported, and its
BERT, which is not used, is left out.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import torch
from devices import add_device, required_device, train_turn
from side_by_side import compare, tell

from trainables.config.keys import unflatten, validated
from trainables.data.columns import RankingData, required_split
from trainables.data.words import words
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

QUERY_WORDS, DOCUMENT_WORDS, PAIRS = 20, 60, 32


def our_training(data: str, steps: int, device: torch.device) -> Training:
    run = validated(
        unflatten(
            {
                "data.source": data,
                "ranker.name": "conv_knrm",
                "ranker.vector_size": 300,
                "ranker.max_query_length": QUERY_WORDS,
                "training.max_length": DOCUMENT_WORDS,
                "training.batch_size": PAIRS,
                "training.batches_per_iteration": steps,
                "training.max_iterations": 1000,
                "training.patience": 1000,
                "training.loss": "hinge",
            }
        )
    )
    return Training(run, prepare(run), str(device))


def train_ours(training: Training, losses: list[float]) -> None:
    losses.append(train_turn(training)["train_loss"])


def matchzoo() -> Any:
    """MatchZoo-py imported under a current Python and NumPy."""
    for name in ("Iterable", "Mapping", "Sequence", "Callable", "MutableMapping"):
        setattr(collections, name, getattr(collections.abc, name))
    for name, kind in (("int", int), ("float", float), ("object", object)):
        if not hasattr(np, name):
            setattr(np, name, kind)
    unused = types.ModuleType("pytorch_transformers")
    unused.BertTokenizer = unused.BertModel = None  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules.setdefault("pytorch_transformers", unused)
    import matchzoo  # pyright: ignore[reportMissingImports]

    data_pack = sys.modules["matchzoo.data_pack.data_pack"]
    data_pack.np = types.SimpleNamespace(array=ragged, vstack=np.vstack, asarray=np.asarray)  # pyright: ignore[reportAttributeAccessIssue]
    return matchzoo


def ragged(rows: Any) -> np.ndarray:
    """What `np.array` once made from lists of unequal length."""
    try:
        return np.array(rows)
    except ValueError:
        made = np.empty(len(rows), object)
        made[:] = rows
        return made


class Words:
    """Stands in for MatchZoo-py's tokenizer, which downloads a model; splits at spaces."""

    def transform(self, text: str) -> list[str]:
        return text.split()


def peer_batches(
    mz: Any, data: RankingData, vectors: dict[str, np.ndarray], resample: bool, device: torch.device
) -> tuple[Any, Any]:
    """MatchZoo-py's loader of training pairs, and its ConvKNRM over the same vectors."""
    split = required_split(data, "train")
    rows = pandas.DataFrame(
        {
            "id_left": [data.query_ids[int(query)] for query in split.query[split.owner]],
            "text_left": [" ".join(words(data.query_text(int(query)))) for query in split.query[split.owner]],
            "id_right": [data.document_ids[int(document)] for document in split.document],
            "text_right": [" ".join(words(data.documents[int(document)])) for document in split.document],
            "label": np.maximum(split.grade, 0),
        }
    )
    task = mz.tasks.Ranking(losses=mz.losses.RankHingeLoss())
    preprocessor = mz.preprocessors.BasicPreprocessor(
        truncated_length_left=QUERY_WORDS, truncated_length_right=DOCUMENT_WORDS, filter_low_freq=1
    )
    preprocessor._units = [Words()]
    pack = preprocessor.fit_transform(mz.pack(rows, task), verbose=0)
    dataset = mz.dataloader.Dataset(pack, mode="pair", num_neg=1, batch_size=PAIRS, resample=resample, shuffle=True)
    loader = mz.dataloader.DataLoader(
        dataset, device=device, stage="train", callback=mz.models.ConvKNRM.get_default_padding_callback()
    )
    index = preprocessor.context["vocab_unit"].state["term_index"]
    width = len(next(iter(vectors.values())))
    table = np.zeros((len(index), width), np.float32)
    for word, row in index.items():
        table[row] = vectors.get(word, table[row])
    model = mz.models.ConvKNRM()
    model.params["task"] = task
    model.params["embedding"] = table
    model.params["embedding_freeze"] = True
    model.guess_and_fill_missing_params(verbose=0)
    model.build()
    return loader, model.to(device)


def peer_trainer(loader: Any, model: Any, steps: int, losses: list[float]) -> Callable[[], None]:
    """The loop of MatchZoo-py's Trainer: zero, forward, hinge, backward, clip, step."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    criterion = model.params["task"].losses[0]

    def batches():
        while True:
            yield from loader

    stream = batches()

    def run() -> None:
        model.train()
        total = 0.0
        for _ in range(steps):
            inputs, labels = next(stream)
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += float(loss.detach())
        losses.append(total / steps)

    return run


def vectors_of(prepared: PreparedData) -> dict[str, np.ndarray]:
    names = prepared.text.files["vocabulary.txt"].splitlines()
    table = prepared.text.arrays["vectors"]
    return dict(zip(names, table[len(table) - len(names) :], strict=True))


def falling(losses: list[float]) -> bool:
    return all(math.isfinite(loss) for loss in losses) and losses[-1] < losses[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    add_device(parser)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    device = required_device(options.device)
    training = our_training(options.data, options.steps, device)
    vectors = vectors_of(training.prepared)
    loader, model = peer_batches(matchzoo(), training.prepared.data, vectors, True, device)
    ours: list[float] = []
    peer: list[float] = []
    done = compare(
        f"ConvKNRM, {options.steps} steps of {PAIRS} pairs",
        "MatchZoo-py",
        lambda: train_ours(training, ours),
        peer_trainer(loader, model, options.steps, peer),
        options.repeats,
    )
    tell(done, options.json)
    if not (falling(ours) and falling(peer)):
        print(f"error: a loss does not fall: ours {ours}, MatchZoo-py {peer}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
