"""The tests of GPUs, on the simulated GPU where there is no other; and that this one notices what they look for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.commands import ROOT, on_path
from tests.support.simulated_gpu import installed

pytestmark = pytest.mark.slow

HERE = "simulated" in dir(torch)
without = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/test_gpu.py uses the GPU that is here")
there = pytest.mark.skipif(not HERE, reason="runs within test_on_the_simulated_gpu")


@without
@pytest.mark.parametrize("tests", ["test_gpu.py", Path(__file__).name])
def test_on_the_simulated_gpu(tests: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", ROOT / "tests" / tests],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": on_path(installed(tmp_path / "site"), str(ROOT))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@there
def test_operations_on_two_devices_fail() -> None:
    gpu, cpu = torch.ones(3, device="cuda"), torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        gpu + cpu
    assert (gpu + torch.tensor(1.0)).device.type == "cuda"
    assert torch.equal((gpu + gpu).cpu(), cpu + cpu)


@there
@pytest.mark.parametrize("ask", [
    lambda x: x.sum().item(), lambda x: x.nonzero(), lambda x: x[x > 0], lambda x: x[torch.tensor([0])],
    lambda x: x.cpu(), lambda _: torch.ones(3).to("cuda"), lambda x: x.repeat_interleave(x.long()),
])  # fmt: skip
def test_waits_are_refused_when_they_are_errors(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.ones(3, device="cuda")
    ask(gpu)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="waits"):
            ask(gpu)
        torch.ones(3).to("cuda", non_blocking=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@there
def test_memory_is_counted_and_limited() -> None:
    before = torch.cuda.memory_allocated()
    held = torch.zeros(1000, device="cuda")
    view = held[:10]
    assert torch.cuda.memory_allocated() == before + 4000
    del held
    assert torch.cuda.memory_allocated() == before + 4000, "the view holds it"
    del view
    assert torch.cuda.memory_allocated() == before
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((before + 3999) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(1000, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@there
def test_random_numbers_are_the_devices_own() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    state = torch.cuda.get_rng_state()
    first = torch.nn.functional.dropout(torch.ones(64, device="cuda")).cpu()
    assert torch.equal(torch.rand(2), expected), "those of the CPU are untouched"
    second = torch.nn.functional.dropout(torch.ones(64, device="cuda")).cpu()
    torch.cuda.set_rng_state(state)
    again = torch.nn.functional.dropout(torch.ones(64, device="cuda")).cpu()
    assert torch.equal(first, again) and not torch.equal(first, second)


@there
def test_autocast_lowers_products_and_no_sums() -> None:
    square = torch.rand(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (square @ square).dtype == torch.bfloat16
        assert (square @ square).softmax(0).dtype == torch.float32
        with torch.autocast("cuda", enabled=False):
            assert (square @ square).dtype == torch.float32
