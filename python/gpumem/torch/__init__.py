# SPDX-License-Identifier: Apache-2.0
"""PyTorch: CUDA tensors from gpumemd.

    import gpumem.torch
    gpumem.torch.install()        # before the first CUDA tensor

Every CUDA tensor of the process is then an allocation of libgpumem-client, in the order of its
stream. Torch's own functions say what gpumemd holds: memory_stats, memory_summary,
max_memory_allocated, mem_get_info, set_per_process_memory_fraction, empty_cache. What torch's
interface for allocators cannot do is switched off, or refused, by name: see docs/frameworks.md.

With the optional extension (`python -m gpumem torch-extension`) torch can do most of that: what
is then possible, and what is not, is in docs/frameworks.md.

`pool()` is the smaller way: a torch.cuda.MemPool, for one thread, above which torch caches.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .. import _client, _errors, _notice, _serving, _structs, _torch_extension, _where, kernels
from .._buffer import pinned as _pinned
from .._buffer import shape_of as _shape_of
from .._library import load
from . import _first_use, _graphs, _patches, _refusals, _statistics, _streams, _vllm

# torch's setter on an allocator: the C function that it is given
_HOOKS = {
    "set_init_fn": "gpumem_torch_init",
    "set_reset_fn": "gpumem_torch_empty_cache",
    "set_memory_fraction_fn": "gpumem_torch_set_fraction",
    "set_base_alloc_fn": "gpumem_torch_base",
    "set_record_stream_fn": "gpumem_torch_record_stream",
}

_kept: list[Any] = []  # allocators outlive every tensor
_is_installed = False
_extension: ctypes.PyDLL | None = None
_tell: Callable[[], None] | None = None  # tells of what is replaced, before the allocator is

_first_use.watch()


def _allocator(alloc: str, free: str) -> Any:
    library = load()
    made = torch._C._cuda_customAllocator(library.address(alloc), library.address(free))
    _kept.append(made)
    return made


def _hook(allocator: Any) -> None:
    library = load()
    for setter, function in _HOOKS.items():
        if hasattr(allocator, setter) and library.has(function):
            getattr(allocator, setter)(library.address(function))


def _check_first_use() -> None:
    if torch.cuda.is_initialized():
        line = _first_use.line()
        where = f" by {line}" if line else ""
        raise _errors.Unsupported(
            f"torch has begun to use CUDA already{where}: its allocator cannot be changed now. "
            "Call gpumem.torch.install() before that, or start with `python -m gpumem run`."
        )


def _take_back() -> None:
    global _tell
    _tell = None
    _patches.take_back()


def _prepare(extension: ctypes.PyDLL | None) -> None:
    """Replaces all but the allocator, which needs no driver."""
    global _tell
    try:
        _statistics.install(is_whole=extension is None)
        _graphs.install()
        _streams.install()
        _vllm.install()
        _tell = _refusals.install(extension is not None)
    except BaseException:
        _take_back()
        raise


def _replace() -> None:
    """Torch's allocator last, as what fails before that can be put back."""
    global _extension
    extension = _torch_extension.load(load().path)
    if _tell is None:
        _prepare(extension)
    try:
        if extension is None:
            made = _allocator("gpumem_torch_alloc", "gpumem_torch_free")
            _hook(made)
            torch._C._cuda_changeCurrentAllocator(made)
        else:
            _torch_extension.install(extension)
    except BaseException:
        _take_back()
        raise
    _patches.keep()
    _extension = extension


def install(*, wait: float = 10.0) -> str:
    """Has the whole process's CUDA tensors come from gpumemd. Says what was done.

    Before the first use of CUDA; else Unsupported names the line that was first, if it is known.
    wait: seconds that an allocation waits for memory that others hold. Out of memory is a
    RuntimeError whose text begins with "CUDA out of memory."; with the extension it is
    torch.OutOfMemoryError. Triton's kernels are kept in the store too, see gpumem.kernels.
    """
    global _is_installed
    if _is_installed:
        return "every CUDA tensor, as before"
    if _notice.is_disabled():
        return _serving.DISABLED
    _check_first_use()
    _serving.check()
    load().adapters_set_wait_ms(_client.wait_ms(wait))
    _replace()
    _is_installed = True
    _first_use.forget()
    kernels.try_install("triton")
    if _tell is not None:
        _tell()
    return "every CUDA tensor"


def install_where_served(
    tell_served: Callable[[str], None], tell_not_served: Callable[[Exception], None]
) -> None:
    """install() for `python -m gpumem run`. The driver is initialised at torch's first use of CUDA,
    as without gpumem: until then the program may choose its devices, and fork.

    One of both is called then, or the second at once, by an exception."""

    def begin() -> None:
        try:
            done = install()
        except Exception as error:
            _take_back()
            tell_not_served(error)
        else:
            tell_served(done)

    if _is_installed or _notice.is_disabled():
        begin()
        return
    _check_first_use()
    problem = _where.problem()
    if problem is not None:
        raise _errors.NoDaemon(problem, _errors.DISCONNECTED)
    _prepare(_torch_extension.load(load().path))
    _first_use.before(begin)


def pool(*, registered: bool = False, **options: Any) -> Any:
    """A torch.cuda.MemPool whose segments are gpumemd's, for torch.cuda.use_mem_pool(pool).

    Torch cuts them, keeps them and counts them; torch.cuda.empty_cache() or the pool's end gives
    them back. Of this thread only: backward passes run on threads of their own. `options` are
    MemPool's. Not after install(); registered() is for that.
    registered: its segments have blocks of their own, for RDMA where the device has that. A process
    group registers it: ProcessGroupNCCL's register_mem_pool(pool). Fill it before a capture."""
    if _is_installed:
        raise _errors.Unsupported("gpumem.torch.install() serves every tensor already: no pool. "
                                  "`with gpumem.torch.registered():` is for memory that NCCL registers")
    _client.connect()
    alloc = "gpumem_torch_registered_alloc" if registered else "gpumem_torch_pool_alloc"
    return torch.cuda.MemPool(_allocator(alloc, "gpumem_torch_free"), **options)


@contextlib.contextmanager
def _allocating(flag: int, what: str) -> Iterator[None]:
    """This thread's allocations have the flag too."""
    if _extension is None:
        raise _errors.Unsupported(f"{what} with torch's extension only, after install(): "
                                  f"`{_torch_extension.COMMAND}` builds it")
    before = _extension.gpumem_torch_extension_set_flags(0)
    _extension.gpumem_torch_extension_set_flags(before | flag)
    try:
        yield
    finally:
        _extension.gpumem_torch_extension_set_flags(before)


def shareable() -> contextlib.AbstractContextManager[None]:
    """What this thread allocates inside can be sent to other processes by torch.multiprocessing.

    Each such allocation takes blocks of its own, 2 MiB at least. Needs the extension."""
    return _allocating(_structs.SHAREABLE, "tensors can be sent to other processes")


def registered() -> contextlib.AbstractContextManager[None]:
    """What this thread allocates inside has blocks of its own, 2 MiB at least, which are not reused.

    For memory that NCCL or a network adapter registers. Needs the extension, and install()."""
    return _allocating(_structs.REGISTERED, "tensors have blocks of their own")


def pinned(shape: Any, dtype: Any = torch.float32) -> Any:
    """A CPU tensor in gpumemd's pinned memory, for non_blocking copies; contents undefined."""
    lengths = _shape_of(shape)
    n_bytes = torch.empty(0, dtype=dtype).element_size()
    for length in lengths:
        n_bytes *= length
    if not n_bytes:
        return torch.empty(lengths, dtype=dtype)
    array = _pinned(n_bytes).numpy()
    return torch.from_numpy(array).view(dtype).view(lengths)


def failures() -> int:
    """Calls by torch that failed where it takes no error: frees. 0 in a sound program."""
    return load().adapters_failures()


__all__ = ["failures", "install", "pinned", "pool", "registered", "shareable"]
