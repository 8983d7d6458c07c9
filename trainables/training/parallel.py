"""One training computed by several processes: each draws the same batches, and computes a part of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn


@dataclass(frozen=True)
class Ranks:
    """The processes of one training, of which this one has a rank. With more than one, all are members of PyTorch's
    process group, and each must call the same methods in the same order. The results are the same in all of them.
    """

    rank: int = 0
    count: int = 1

    @staticmethod
    def of_group() -> Ranks:
        """The members of PyTorch's process group."""
        return Ranks(distributed.get_rank(), distributed.get_world_size())

    def part(self, size: int) -> slice:
        """This process's part of `size` samples; the parts of all processes differ by at most one sample."""
        return slice(self.rank * size // self.count, (self.rank + 1) * size // self.count)

    def seeded(self, *when: int) -> tuple[int, ...]:
        """The moment of a random state that each process has for itself; that of the first is a single process's."""
        return (*when, self.rank) if self.rank else when

    def summed(self, value: Tensor) -> Tensor:
        """The sum of all processes' tensors, in place of this one's."""
        if self.count > 1:
            distributed.all_reduce(value)
        return value

    def sum_gradients(self, module: nn.Module) -> None:
        """Replaces each gradient by the sum over the processes: the gradient of the whole batch, if each has computed
        that of its part. Parameters without a gradient, which the network does not use, keep none."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
        summed = self.summed(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, part in zip(gradients, summed.split([one.numel() for one in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def rows(self, own: int, device: torch.device) -> tuple[Tensor, int]:
        """The rows of this process's `own` values in a table of all processes' values, by rank, and the table's
        size."""
        sizes = torch.zeros(self.count, dtype=torch.int64, device=device)
        sizes[self.rank] = own
        ends = self.summed(sizes).cumsum(0).tolist()
        return torch.arange(ends[self.rank] - own, ends[self.rank], device=device), ends[-1]

    def merged(self, own: Tensor, rows: Tensor, size: int) -> Tensor:
        """Values [size, ...] of which each process has computed those of its `rows`, `own`; every row has one owner."""
        whole = own.new_zeros(size, *own.shape[1:])
        whole[rows] = own
        return self.summed(whole)


ALONE = Ranks()
