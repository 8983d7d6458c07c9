"""A batch's gradient, computed in as many parts as memory requires; the sum is the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from trainables.core.errors import WorkFailed
from trainables.training.memory import Lack, attempt
from trainables.training.parallel import ALONE, Ranks


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
        part = self.ranks.part(size)
        loss = self._repeated(part.stop - part.start, lambda: self._sum(module, part, loss_of))
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

        of_rank = -(-size // self.ranks.count)

        def work() -> Tensor:
            parts = self.ranks.count * -(-of_rank // min(self.samples or of_rank, of_rank))
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
        joined = torch.cat(parts)
        rows, size = self.ranks.rows(len(joined), joined.device)
        vectors = self.ranks.merged(joined, rows, size).requires_grad_()
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
        states = [torch.cuda.get_rng_state(self.device)] if self.device.type == "cuda" else []
        return [torch.get_rng_state(), *states]

    def _set_random_state(self, state: list[Tensor]) -> None:
        torch.set_rng_state(state[0])
        if len(state) > 1:
            torch.cuda.set_rng_state(state[1], self.device)
