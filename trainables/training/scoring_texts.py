"""A batch's gradient, computed in as many parts as memory requires; the sum is the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.errors import WorkFailed
from trainables.rankers.ranker import DualEncoder, RankerModule, Tokens, on_device
from trainables.training.device import Precision
from trainables.training.parallel import ALONE, Ranks

Result = TypeVar("Result")

OUT_OF_MEMORY = (
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",  # other processes have filled the device before the first product
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "unable to find an engine to execute this computation",  # what remains when none of cuDNN's algorithms has room
)
"""Messages of CUDA, and of libraries that bypass PyTorch's allocator; the last one can have other causes too."""


@dataclass(frozen=True)
class Lack:
    """A device had too little memory; `words` is its message."""

    words: str


def attempt(work: Callable[[], Result], device: torch.device) -> Result | Lack:
    """What the work returns, or a Lack if the device has too little memory for it; the memory is free again then."""
    if isinstance(result := _unless_out_of_memory(work), Lack) and device.type == "cuda":
        torch.cuda.empty_cache()
    return result


def _unless_out_of_memory(work: Callable[[], Result]) -> Result | Lack:
    try:
        return work()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return Lack(str(error).partition("\n")[0])


def out_of_memory(error: RuntimeError) -> bool:
    """Whether the error means that a device lacks memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


@contextmanager
def enough_memory(device: torch.device) -> Iterator[None]:
    """For work that would not fit with a smaller batch either: raises WorkFailed with advice if memory runs out."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise WorkFailed(
            f"the ranker, or what its optimiser keeps, does not fit in the memory of {device}; a smaller ranker, a "
            "smaller training.max_length, or a larger share of a GPU (search.resources.gpu) may help"
        ) from error


class Accumulation:
    """Sums a batch's gradient over micro-batches of at most `samples` samples (None: the whole batch at once).

    When the device runs out of memory, `samples` is halved for good and the batch is repeated. Parts draw other dropout
    masks than the whole batch would; all else is the same up to rounding. `notes` tells the user once that memory ran
    out; whoever reports on a training takes them, since a process on a cluster has no terminal.

    With several `ranks`, each accumulates over its own part of the batch, and at the end the gradients are summed.
    """

    def __init__(self, samples: int | None, device: torch.device, ranks: Ranks = ALONE):
        self.samples, self.device, self.ranks = samples, device, ranks
        self.noted = False
        self.notes: list[str] = []

    def backward(self, module: nn.Module, size: int, loss_of: Callable[[slice], Tensor]) -> Tensor:
        """Sums loss_of(part) over the parts of a batch of `size` samples. Leaves the sum's gradient in the module's
        parameters and returns the sum, detached: over this process's part of the batch, while the gradient is that of
        all. Raises WorkFailed if not even one sample fits."""
        own = self.ranks.part(size)
        loss = self._repeated(own.stop - own.start, lambda: self._sum(module, own, loss_of))
        self.ranks.sum_gradients(module)
        return loss

    def backward_through_vectors(
        self,
        module: nn.Module,
        size: int,
        encoders: Callable[[int], Sequence[Callable[[], Tensor]]],
        loss_of: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """As `backward`, for a loss of `size` samples that compares the vectors of all texts: loss_of(vectors).
        `encoders(n)` are functions that give the vectors of the texts in n parts.

        With several parts, gradients are cached (GradCache: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch
        Size under Memory Limited Setup", section 3; code: luyug/GradCache): all texts are encoded without a graph, the
        loss gives the gradient of the vectors, and each part is encoded again, with the same dropout, to pass it on.
        So it is with several processes, each of which encodes some of the texts; the first one returns the whole loss,
        the others 0.
        """

        own = -(-size // self.ranks.count)

        def work() -> Tensor:
            parts = self.ranks.count * -(-own // min(self.samples or own, own))
            return self._sum_through_vectors(module, encoders(parts), loss_of)

        if self.ranks.count == 1:
            return self._repeated(size, work)
        loss = attempt(work, self.device)
        if isinstance(loss, Lack):
            raise WorkFailed(
                f"{self.device} is out of memory ({loss.words}), and in-batch negatives compare the texts of all "
                "processes, so that none can repeat a batch alone; a smaller training.micro_batch may help"
            )
        self.ranks.sum_gradients(module)
        return loss

    def _repeated(self, size: int, work: Callable[[], Tensor]) -> Tensor:
        """The work's result; it is repeated with smaller parts as long as memory runs out."""
        state = self._random_state()
        while isinstance(loss := attempt(work, self.device), Lack):
            self._halve(size, loss)
            self._set_random_state(state)
        return loss

    def _sum_through_vectors(
        self, module: nn.Module, encoders: Sequence[Callable[[], Tensor]], loss_of: Callable[[Tensor], Tensor]
    ) -> Tensor:
        module.zero_grad(set_to_none=True)
        if len(encoders) == 1:
            loss = loss_of(encoders[0]())
            loss.backward()
            return loss.detach()
        encoders = encoders[self.ranks.part(len(encoders))]
        states, parts = [], []
        with torch.no_grad():
            for encode in encoders:
                states.append(self._random_state())
                parts.append(encode())
        own = torch.cat(parts)
        rows, size = self.ranks.rows(len(own), own.device)
        vectors = self.ranks.merged(own, rows, size).requires_grad_()
        loss = loss_of(vectors)
        gradient = torch.autograd.grad(loss, vectors)[0][rows]
        for encode, state, part in zip(encoders, states, gradient.split([len(part) for part in parts]), strict=True):
            self._set_random_state(state)
            encode().backward(part)
        return loss.detach() if self.ranks.rank == 0 else torch.zeros_like(loss)

    def _sum(self, module: nn.Module, own: slice, loss_of: Callable[[slice], Tensor]) -> Tensor:
        """One attempt, with parts of `samples` samples."""
        module.zero_grad(set_to_none=True)
        size = own.stop - own.start
        step = min(self.samples or size, size)
        total = torch.zeros((), device=self.device)
        for start in range(own.start, own.stop, step):
            loss = loss_of(slice(start, min(start + step, own.stop)))
            loss.backward()
            total = total + loss.detach()
        return total

    def _halve(self, size: int, lack: Lack) -> None:
        samples = min(self.samples or size, size)
        if samples == 1:
            raise WorkFailed(
                f"one sample's gradient does not fit in the memory of {self.device} ({lack.words}); "
                "a smaller training.max_length, or for bert ranker.checkpointing: true, may help"
            )
        self.samples = (samples + 1) // 2
        if not self.noted:
            self.noted = True
            self.notes.append(
                f"{self.device} is out of memory with {samples} samples at a time: going on with {self.samples} "
                f"(training.micro_batch), or fewer; batches, loss and gradient stay the same"
            )

    def _random_state(self) -> list[Tensor]:
        """The state that dropout draws from: that of the CPU's generator, and of the GPU's if the device is one."""
        own = [torch.cuda.get_rng_state(self.device)] if self.device.type == "cuda" else []
        return [torch.get_rng_state(), *own]

    def _set_random_state(self, state: list[Tensor]) -> None:
        torch.set_rng_state(state[0])
        if len(state) > 1:
            torch.cuda.set_rng_state(state[1], self.device)


TOKENS_A_BATCH = {"cpu": 8192, "cuda": 32768}


def score_candidates(
    module: RankerModule,
    queries: Tokens,
    documents: Tokens,
    query_rows: np.ndarray,
    document_rows: np.ndarray,
    device: torch.device,
    precision: Precision,
    first_stage: np.ndarray | None = None,
    ranks: Ranks = ALONE,
) -> np.ndarray:
    """Scores of B query-document pairs given as token rows, float32 [B], in the order given; for a ranker with K
    classes, their logits, float32 [B, K]. `first_stage`: the pairs' first-stage scores, float32 [B], for a ranker that
    reads them. Several `ranks` each compute some of the scores; all get all."""
    if not len(query_rows):
        return np.empty(0, np.float32)
    module.eval()
    if isinstance(module, DualEncoder):
        return _compare(module, queries, documents, query_rows, document_rows, device, precision, ranks)

    def scores_of(rows: np.ndarray) -> Tensor:
        inputs = module.collate(queries, documents, query_rows[rows], document_rows[rows])
        if first_stage is not None:
            inputs["first_stage"] = torch.from_numpy(first_stage[rows])
        return module(**on_device(inputs, device)).float()

    costs = module.costs(queries, documents, query_rows, document_rows)
    return _computed(scores_of, costs, device, precision, ranks)


def _computed(
    values_of: Callable[[np.ndarray], Tensor],
    costs: np.ndarray,
    device: torch.device,
    precision: Precision,
    ranks: Ranks,
) -> np.ndarray:
    """Values [N, ...] of N pairs or texts, in their order, which a network computes in batches of similar cost."""
    order = np.argsort(costs, kind="stable")
    shared = ranks.count > 1 and len(order) >= ranks.count
    own = order[ranks.rank :: ranks.count] if shared else order
    with torch.inference_mode(), precision.autocast(device):
        by_cost = torch.cat(list(_in_batches(values_of, costs, own, device)))
        if shared:
            by_cost = ranks.merged(
                by_cost, torch.arange(ranks.rank, len(order), ranks.count, device=device), len(order)
            )
        by_cost = by_cost.cpu().numpy()  # one wait for the device
    values = np.empty_like(by_cost)
    values[order] = by_cost
    return values


PAIRS_A_BLOCK = 1 << 16  # compared at a time: with 1,024 numbers a vector, 512 MB


def _compare(
    module: DualEncoder,
    queries: Tokens,
    documents: Tokens,
    query_rows: np.ndarray,
    document_rows: np.ndarray,
    device: torch.device,
    precision: Precision,
    ranks: Ranks,
) -> np.ndarray:
    """Scores of B pairs, float32 [B]; each distinct text is encoded once."""
    asked, query_of = np.unique(query_rows, return_inverse=True)
    read, document_of = np.unique(document_rows, return_inverse=True)
    vectors = embed_queries(module, queries, asked, device, precision, ranks)
    others = embed_documents(module, documents, read, device, precision, ranks)
    scores = np.empty(len(query_rows), np.float32)
    for start in range(0, len(scores), PAIRS_A_BLOCK):
        part = slice(start, start + PAIRS_A_BLOCK)
        np.einsum("bh,bh->b", vectors[query_of[part]], others[document_of[part]], out=scores[part])
    return scores


DOCUMENTS_A_BLOCK, SCORES_A_BLOCK = 1 << 16, 1 << 25  # scored at a time: 128 MB of scores


def nearest(
    module: DualEncoder,
    queries: Tokens,
    documents: Tokens,
    query_rows: np.ndarray,
    document_rows: np.ndarray,
    depth: int,
    device: torch.device,
    precision: Precision,
    ranks: Ranks = ALONE,
) -> tuple[np.ndarray, np.ndarray]:
    """The `depth` documents of highest score for each of Q queries (all, if there are fewer), best first: their rows,
    int32 [Q K], and scores, float32 [Q K]. Exact: every query is compared with every document. Several
    `ranks` each encode some of the texts."""
    module.eval()
    asked = torch.from_numpy(embed_queries(module, queries, query_rows, device, precision, ranks)).to(device)
    read = torch.from_numpy(embed_documents(module, documents, document_rows, device, precision, ranks))
    width = min(len(read), DOCUMENTS_A_BLOCK)
    parts = [_nearest_of(part, read, depth, device) for part in asked.split(max(1, SCORES_A_BLOCK // width))]
    scores, index = (torch.cat(side).cpu().numpy().ravel() for side in zip(*parts, strict=True))
    return document_rows[index].astype(np.int32), scores


def _nearest_of(queries: Tensor, documents: Tensor, depth: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Highest scores [Q, K] and their documents [Q, K], best first; `documents` [N, H] come to the device in blocks."""
    scores, index = queries.new_empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64, device=device)
    for start, block in zip(
        range(0, len(documents), DOCUMENTS_A_BLOCK), documents.split(DOCUMENTS_A_BLOCK), strict=True
    ):
        own = torch.arange(start, start + len(block), device=device).expand(len(queries), -1)
        scores = torch.cat([scores, queries @ block.to(device).T], 1)
        scores, best = scores.topk(min(depth, scores.shape[1]), 1)
        index = torch.cat([index, own], 1).gather(1, best)
    return scores, index


NO_ROWS = np.empty(0, np.int64)


def embed_queries(
    module: DualEncoder, texts: Tokens, rows: np.ndarray, device: torch.device, precision: Precision, ranks: Ranks
) -> np.ndarray:
    """Vectors of queries, float32 [rows, H]; the module is in evaluation mode."""
    return _computed(
        lambda part: module.embed(**on_device(module.collate_texts(texts, texts, rows[part], NO_ROWS), device)),
        module.text_lengths(texts, rows),
        device,
        precision,
        ranks,
    )


def embed_documents(
    module: DualEncoder, texts: Tokens, rows: np.ndarray, device: torch.device, precision: Precision, ranks: Ranks
) -> np.ndarray:
    """Vectors of documents, float32 [rows, H]; the module is in evaluation mode."""
    return _computed(
        lambda part: module.embed(**on_device(module.collate_texts(texts, texts, NO_ROWS, rows[part]), device)),
        module.text_lengths(texts, rows),
        device,
        precision,
        ranks,
    )


def _in_batches(
    scores_of: Callable[[np.ndarray], Tensor], costs: np.ndarray, order: np.ndarray, device: torch.device
) -> Iterator[Tensor]:
    """Yields the scores of the pairs batch by batch, in `order`, the cheapest first. Each time the device runs out of
    memory, the padded size of the batches is lowered. Raises WorkFailed if one pair alone does not fit."""
    budget, start = TOKENS_A_BATCH[device.type], 0
    while start < len(order):
        rows = order[start : start + _fitting(costs, order[start:], budget)]
        scores = attempt(partial(scores_of, rows), device)
        if not isinstance(scores, Lack):
            start += len(rows)
            yield scores
        elif len(rows) > 1:
            budget = len(rows) // 2 * int(costs[rows[-1]])
        else:
            right = "a smaller training.max_length may help"
            raise WorkFailed(f"one pair does not fit in the memory of {device} ({scores.words}); {right}")


def _fitting(costs: np.ndarray, order: np.ndarray, budget: int) -> int:
    """How many pairs from the start of `order` (cheapest first) make a batch of padded size `budget`; at least one."""
    count = max(1, budget // max(1, int(costs[order[0]])))
    return max(1, min(count, budget // max(1, int(costs[order[min(count, len(order)) - 1]]))))
