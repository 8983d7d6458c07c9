"""A batch's gradient, computed in as many parts as memory requires; the sum is the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from trainables.core.errors import WorkFailed
from trainables.training.device import NO_FIXED_ORDER, repeatable
from trainables.training.memory import Lack, attempt


class Accumulation:
    """Sums a batch's gradient over micro-batches of at most `samples` samples (None: the whole batch at once).

    When the device runs out of memory, `samples` is halved for good and the batch is repeated. Parts draw other dropout
    masks than the whole batch would; all else is the same up to rounding. `notes` tells the user once that memory ran
    out; whoever reports on a training takes them, since a process on a cluster has no terminal. `repeatable`: whether
    every operation so far has a deterministic implementation.
    """

    def __init__(self, samples: int | None, device: torch.device):
        self.samples, self.device = samples, device
        self.noted, self.repeatable = False, True
        self.notes: list[str] = []

    def backward(self, module: nn.Module, size: int, loss_of: Callable[[slice], Tensor]) -> Tensor:
        """Sums loss_of(part) over the parts of a batch of `size` samples. Leaves the sum's gradient in the module's
        parameters and returns the sum, detached. Raises WorkFailed if not even one sample fits."""
        return self._repeated(size, lambda: self._sum(module, size, loss_of))

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
        """

        def work() -> Tensor:
            parts = -(-size // min(self.samples or size, size))
            return self._sum_through_vectors(module, encoders(parts), loss_of)

        return self._repeated(size, work)

    def _repeated(self, size: int, work: Callable[[], Tensor]) -> Tensor:
        """The work's result; it is repeated with smaller parts as long as memory runs out, and in any order if an
        operation has no fixed one."""
        state = self._random_state()
        while True:
            try:
                with repeatable(self.device, strictly=self.repeatable):
                    loss = attempt(work, self.device)
            except RuntimeError as error:
                if NO_FIXED_ORDER not in str(error):
                    raise
                self._allow_any_order(str(error))
            else:
                if not isinstance(loss, Lack):
                    return loss
                self._halve(size, loss)
            self._set_random_state(state)

    def _sum_through_vectors(
        self, module: nn.Module, encoders: Sequence[Callable[[], Tensor]], loss_of: Callable[[Tensor], Tensor]
    ) -> Tensor:
        module.zero_grad(set_to_none=True)
        if len(encoders) == 1:
            loss = loss_of(encoders[0]())
            loss.backward()
            return loss.detach()
        states, parts = [], []
        with torch.no_grad():
            for encode in encoders:
                states.append(self._random_state())
                parts.append(encode())
        vectors = torch.cat(parts).requires_grad_()
        loss = loss_of(vectors)
        gradient = torch.autograd.grad(loss, vectors)[0]
        for encode, state, part in zip(encoders, states, gradient.split([len(part) for part in parts]), strict=True):
            self._set_random_state(state)
            encode().backward(part)
        return loss.detach()

    def _sum(self, module: nn.Module, size: int, loss_of: Callable[[slice], Tensor]) -> Tensor:
        """One attempt, with parts of `samples` samples."""
        module.zero_grad(set_to_none=True)
        step = min(self.samples or size, size)
        total = torch.zeros((), device=self.device)
        for start in range(0, size, step):
            loss = loss_of(slice(start, min(start + step, size)))
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

    def _allow_any_order(self, message: str) -> None:
        self.repeatable = False
        operation = message.partition(NO_FIXED_ORDER)[0]
        self.notes.append(
            f"{operation}, which this ranker or its loss uses, has no deterministic implementation on {self.device}: "
            "another run with the same seed gives nearly, not exactly, these numbers"
        )

    def _random_state(self) -> list[Tensor]:
        """The state that dropout draws from: that of the CPU's generator, and of the GPU's if the device is one."""
        states = [torch.cuda.get_rng_state(self.device)] if self.device.type == "cuda" else []
        return [torch.get_rng_state(), *states]

    def _set_random_state(self, state: list[Tensor]) -> None:
        torch.set_rng_state(state[0])
        if len(state) > 1:
            torch.cuda.set_rng_state(state[1], self.device)
