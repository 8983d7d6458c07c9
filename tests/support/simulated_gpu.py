"""A GPU of Python, for machines without one: what PyTorch calls `cuda` there has memory and a random state of its own.

A CPU computes its numbers, so it shows nothing of speed or of CUDA's rounding. It shows what a program does wrong on
any GPU: operations on tensors of two devices fail, and so do waits under `set_sync_debug_mode("error")` and allocations
beyond the memory that the process may use; autocast computes what CUDA's lists name in the lower precision.

`installed` writes a folder which, on PYTHONPATH, makes `import torch` install the device, in Ray's workers too: PyTorch
loads what the entry points `torch.backends` name. The device's tensors are wrappers around tensors of the CPU. PyTorch
dispatches them by the key PrivateUse1, and programs that ask are told that they are on `cuda`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, fallthrough_kernel
from torch.utils import _device, backend_registration
from torch.utils._pytree import tree_leaves, tree_map

NAME, CUDA, CPU = "simulated", torch.device("cuda", 0), torch.device("cpu")
TOTAL = 8 * 2**30  # bytes of memory
WAITS = {"_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "equal", "_unique2", "unique_consecutive"}
BF16 = "conv1d conv2d addmm matmul einsum mm mv linear baddbmm bmm prelu scaled_dot_product_attention"
FP32 = """acos asin cosh exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor
softplus layer_norm cosine_similarity nll_loss kl_div mse_loss margin_ranking_loss binary_cross_entropy_with_logits
logsumexp prod softmax.int log_softmax.int cumprod cumsum sum sum.dim_IntList norm.Scalar"""
KEPT: list[Library] = []  # registrations, which end when they are collected


def installed(folder: Path) -> str:
    """Writes what PyTorch finds the device by into a folder; returns the folder, for PYTHONPATH."""
    about = folder / "simulated_gpu-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: simulated-gpu\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[torch.backends]\n{NAME} = {__name__}:install\n")
    return str(folder)


class Memory:
    """Bytes that tensors of the device hold, each storage counted once."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self.limit: float = TOTAL
        self.holders: dict[int, tuple[int, int]] = {}  # by a storage's address: its tensors, its bytes

    def take(self, tensor: Tensor, raw: Tensor) -> None:
        """Counts a tensor until it is collected. Raises OutOfMemoryError beyond the limit."""
        storage = raw.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if not size:
            return
        holders, _ = self.holders.get(address, (0, 0))
        if not holders:
            if self.now + size > self.limit:
                raise torch.OutOfMemoryError(f"no room for {size} bytes beside {self.now} on the simulated GPU")
            self.now += size
            self.peak = max(self.peak, self.now)
        self.holders[address] = holders + 1, size
        weakref.finalize(tensor, self._give_back, address)

    def _give_back(self, address: int) -> None:
        holders, size = self.holders.pop(address)
        if holders > 1:
            self.holders[address] = holders - 1, size
        else:
            self.now -= size


memory = Memory()
state = SimpleNamespace(waits="default", random=torch.get_rng_state())


class OnGPU(Tensor):
    """A tensor of the device around one of the CPU, `raw`."""

    raw: Tensor
    device = property(lambda self: CUDA)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: Tensor) -> OnGPU:
        kind: dict[str, Any] = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        with torch.inference_mode(raw.is_inference()):  # views of other tensors are none
            tensor = torch.Tensor._make_wrapper_subclass(cls, raw.size(), device=torch.device(NAME, 0), **kind)
        tensor.raw = raw
        memory.take(tensor, raw)
        return tensor

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{self.raw!r} on a simulated GPU"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name.partition("::")[2], kwargs or {}
        if name not in OWN and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            return func.decompose(*args, **kwargs)  # arrives whole under inference_mode
        refuse_two_devices(name, args, kwargs)
        if state.waits == "error" and waits(name, args, kwargs):
            raise RuntimeError(f"{name} waits for the simulated GPU")
        return compute(name, func, args, kwargs)


def compute(name: str, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Runs an operation below the wrappers; what it changes in place stays the wrapper that it was."""
    wrappers = {id(leaf.raw): leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, OnGPU)}
    draws = torch.Tag.nondeterministic_seeded in func.tags
    with torch.no_grad(), OwnRandomState() if draws else nullcontext():
        result = OWN.get(name, func)(*tree_map(below, args), **tree_map(below, kwargs))
    if name == "copy_":
        return args[0]
    if kwargs.get("device") == CPU:
        return result
    return tree_map(lambda x: wrappers[id(x)] if id(x) in wrappers else above(x), result)


def below(x: Any) -> Any:
    if isinstance(x, torch.device):
        return CPU
    return x.raw if isinstance(x, OnGPU) else x


def above(x: Any) -> Any:
    return OnGPU(x) if isinstance(x, Tensor) else x


class OwnRandomState:
    """Random numbers come from the device's generator, and that of the CPU stays as it is."""

    def __enter__(self) -> None:
        self.of_cpu = torch.get_rng_state()
        torch.set_rng_state(state.random)

    def __exit__(self, *_: object) -> None:
        state.random = torch.get_rng_state()
        torch.set_rng_state(self.of_cpu)


def refuse_two_devices(name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """As CUDA does; a number (a tensor of no dimension) may be on the CPU, and so may indices of a tensor."""
    if name in ("copy_", "_to_copy"):
        return
    leaves = args[:1] if name.startswith("index") and isinstance(args[1], list | tuple) else (args, kwargs)
    for leaf in tree_leaves(leaves):
        if isinstance(leaf, Tensor) and not isinstance(leaf, OnGPU) and leaf.dim():
            raise RuntimeError(f"{name}: expected all tensors to be on the same device, but found cpu beside cuda")


def waits(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the program waits until the device has finished."""
    if name == "copy_":
        asynchronous = kwargs.get("non_blocking", len(args) > 2 and args[2])
        return isinstance(args[0], OnGPU) != isinstance(args[1], OnGPU) and not asynchronous
    if name == "_to_copy":
        return kwargs.get("device") == CPU
    if name.startswith("index") and isinstance(args[1], list | tuple):
        return any(isinstance(x, Tensor) and (not isinstance(x, OnGPU) or x.dtype == torch.bool) for x in args[1])
    return name in WAITS or (name == "repeat_interleave" and kwargs.get("output_size") is None)


def lstm_cell(inputs: Tensor, hidden: Tensor, cell: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The cell that PyTorch has for GPUs only, and after it its gradient."""
    gates = sum((bias for bias in biases if bias is not None), inputs + hidden)
    first, forget, new, out = gates.chunk(4, 1)
    first, forget, new, out = first.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    after = forget * cell + first * new
    return out * after.tanh(), after, torch.cat([first, forget, new, out], 1)


def lstm_cell_backward(
    of_hidden: Tensor | None, of_cell: Tensor | None, cell: Tensor, after: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    first, forget, new, out = gates.chunk(4, 1)
    bent = after.tanh()
    of_hidden = torch.zeros_like(after) if of_hidden is None else of_hidden
    inner = of_hidden * out * (1 - bent * bent) + (0 if of_cell is None else of_cell)
    parts = (inner * new, first), (inner * cell, forget), (of_hidden * bent, out)
    of_first, of_forget, of_out = (gradient * gate * (1 - gate) for gradient, gate in parts)
    gradient = torch.cat([of_first, of_forget, inner * first * (1 - new * new), of_out], 1)
    return gradient, inner * forget, gradient.sum(0) if has_bias else None


OWN = {"_thnn_fused_lstm_cell": lstm_cell, "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward}


class Module:
    """What `torch.cuda` and the module of the key have in the device's place. No two names share a function: PyTorch
    looks them up by identity."""

    device = type("device", (nullcontext,), {})  # a class, to which the libraries of peers compare
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    is_available, is_initialized = staticmethod(lambda: True), staticmethod(lambda: True)
    is_bf16_supported = staticmethod(lambda **_: True)
    _is_in_bad_fork = staticmethod(lambda: False)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16, torch.float32])
    empty_cache, synchronize, set_device = (staticmethod(lambda *_: None) for _ in range(3))
    get_device_name = staticmethod(lambda *_: "simulated")
    get_device_properties = staticmethod(lambda *_: SimpleNamespace(total_memory=TOTAL))
    memory_allocated, memory_reserved = staticmethod(lambda *_: memory.now), staticmethod(lambda *_: memory.now)
    max_memory_allocated = staticmethod(lambda *_: memory.peak)
    max_memory_reserved = staticmethod(lambda *_: memory.peak)
    mem_get_info = staticmethod(lambda *_: (TOTAL - memory.now, TOTAL))
    get_rng_state = staticmethod(lambda *_: state.random.clone())

    @staticmethod
    def reset_peak_memory_stats(*_: object) -> None:
        memory.peak = memory.now

    @staticmethod
    def set_per_process_memory_fraction(fraction: float, *_: object) -> None:
        memory.limit = fraction * TOTAL

    @staticmethod
    def set_rng_state(new: Tensor, *_: object) -> None:
        state.random = new.clone()

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        state.random = torch.Generator().manual_seed(seed).get_state()

    @staticmethod
    def set_sync_debug_mode(mode: str) -> None:
        state.waits = mode


def install() -> None:
    """Registers the device with PyTorch, which then has it for the rest of the process."""
    backend_registration._setup_privateuseone_for_python_backend(rename=NAME, backend_module=Module())
    register_kernels()
    for name in dir(Module):
        if not name.startswith("__"):
            setattr(torch.cuda, name, getattr(Module, name))
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # `.data = ` would leave `raw` behind
    for function in _device._device_constructors():
        if getattr(torch, name := function.__name__, None) is function:
            setattr(torch, name, with_own_names(function))
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(torch, name, moved(getattr(torch, name)))
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype"):
        setattr(torch, name, with_own_names(getattr(torch, name)))
    torch.autocast.__init__ = with_own_names(torch.autocast.__init__)  # type: ignore[method-assign]
    Tensor.to = with_own_names(Tensor.to)  # type: ignore[method-assign]
    Tensor.cuda = lambda self, *_, **__: self.to(CUDA)  # type: ignore[method-assign]
    Tensor.pin_memory = lambda self, *_: self  # type: ignore[method-assign]


def register_kernels() -> None:
    """Empty tensors, from which PyTorch makes all others, and autocast."""
    aten, rest = Library("aten", "IMPL"), Library("_", "IMPL")
    KEPT.extend([aten, rest])

    def empty(size: list[int], *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
        return OnGPU(torch.empty(size, dtype=dtype, device=CPU))

    def empty_strided(size: list[int], stride: list[int], *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
        return OnGPU(torch.empty_strided(size, stride, dtype=dtype, device=CPU))

    aten.impl("empty.memory_format", empty, "PrivateUse1")
    aten.impl("empty_strided", empty_strided, "PrivateUse1")
    rest.fallback(fallthrough_kernel, "AutocastPrivateUse1")
    for name in BF16.split():
        aten.impl(name, autocast(name, full=False), "AutocastPrivateUse1")
    for name in FP32.split():
        aten.impl(name, autocast(name, full=True), "AutocastPrivateUse1")


def autocast(name: str, full: bool) -> Callable[..., Any]:
    """An operation whose tensors are cast before it, to float32 or to the lower precision."""
    operation, _, overload = name.partition(".")
    function = getattr(getattr(torch.ops.aten, operation), overload or "default")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        def cast(x: Any) -> Any:
            if not isinstance(x, OnGPU) or not x.is_floating_point() or x.dtype == torch.float64:
                return x
            return x.to(torch.float32 if full else torch.get_autocast_dtype("cuda"))

        with torch._C._ExcludeDispatchKeyGuard(keys):
            return function(*tree_map(cast, args), **tree_map(cast, kwargs))

    return kernel


def own(x: Any) -> Any:
    """The device's name to PyTorch in place of `cuda`."""
    is_cuda = (isinstance(x, torch.device) and x.type == "cuda") or (isinstance(x, str) and x.startswith("cuda"))
    return torch.device(NAME, 0) if is_cuda and isinstance(x, torch.device) else NAME if is_cuda else x


def with_own_names(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def translated(*args: Any, **kwargs: Any) -> Any:
        return function(*map(own, args), **{key: own(value) for key, value in kwargs.items()})

    return translated


def moved(function: Callable[..., Any]) -> Callable[..., Any]:
    """For functions that copy below the level of wrappers: the tensor is made on the CPU, and moved."""

    @functools.wraps(function)
    def made(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        tensor = function(*args, **kwargs)
        return tensor if device is None else tensor.to(device)

    return made
