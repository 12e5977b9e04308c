# SPDX-License-Identifier: Apache-2.0
"""CuPy: arrays and pinned memory from gpumemd.

    import gpumem.cupy
    gpumem.cupy.install()

Each array is an allocation of libgpumem-client, in the order of the thread's stream. Nothing is
cached a second time, and an array that is made in a capture is the graph's. CuPy's functions for
its pools say what gpumemd holds for the process: cupy.get_default_memory_pool().free_all_blocks()
gives gpumemd what is not used.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import cupy

from . import _client, _notice, _serving, kernels
from ._library import load
from ._structs import PINNED

_kept: list[Any] = []  # what C code calls must not be collected


def _stream_function() -> int:
    """The address of CuPy's C function that tells the thread's current stream; 0: it has none."""
    try:
        import cupy_backends.cuda.stream as module

        capsule = module.__pyx_capi__["get_current_stream_ptr"]
    except (ImportError, AttributeError, KeyError):
        return 0
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    return pointer(capsule, name(capsule)) or 0


def allocator() -> Callable[[int], Any]:
    """For cupy.cuda.set_allocator or using_allocator: sizes to MemoryPointers."""
    library = load()
    function = _stream_function()
    if not function:
        _notice.say("this CuPy does not tell its current stream: arrays are of the default stream")
    owner = cupy.cuda.CFunctionAllocator(function, library.address("gpumem_cupy_alloc"),
                                         library.address("gpumem_cupy_free"), library)
    _kept.append(owner)
    return owner.malloc  # as it is: a function of Python's around it would cost a fifth of a call


def _refuse(size: int, text: str) -> None:
    """Called by gpumem_cupy_alloc where memory is lacking."""
    made = cupy.cuda.memory.OutOfMemoryError(size, _client.stats().reserved_bytes)
    made.args = (text,)
    raise made


class _PinnedMemory:
    """What CuPy keeps until a copy from it, or to it, has run."""

    __slots__ = ("ptr", "size", "_pid", "__weakref__")

    def __init__(self, size: int) -> None:
        self.ptr = 0
        self._pid = os.getpid()
        self.size = size
        self.ptr = _client.allocate(size, kind=PINNED, wait=10.0)

    def __int__(self) -> int:
        return self.ptr

    def __del__(
        self, _getpid: Callable[[], int] = os.getpid, _ends: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        if self.ptr and self._pid == _getpid() and not _ends():
            _client.check(load().free_later(None, self.ptr))


def pinned_allocator(size: int) -> Any:
    """For cupy.cuda.set_pinned_memory_allocator: exactly the size, no power of two."""
    return cupy.cuda.PinnedMemoryPointer(_PinnedMemory(size), 0)


class _Pool:
    """cupy.cuda.MemoryPool's functions, over the figures of this process."""

    malloc: Callable[[int], Any]

    def __init__(self, malloc: Callable[[int], Any]) -> None:
        self.malloc = malloc

    def used_bytes(self) -> int:
        """In arrays."""
        return _client.stats().allocated_bytes

    def free_bytes(self) -> int:
        """Leased from gpumemd, and not in arrays."""
        held = _client.stats()
        return held.reserved_bytes - held.allocated_bytes

    def total_bytes(self) -> int:
        """Leased from gpumemd."""
        return _client.stats().reserved_bytes

    def n_free_blocks(self) -> int:
        """CuPy's pool keeps none."""
        return 0

    def free_all_blocks(self, stream: Any = None) -> None:
        """Gives gpumemd what no array is in."""
        _client.flush()

    def free_all_free(self) -> None:
        """As free_all_blocks."""
        _client.flush()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """The process's own limit on the current device; 0: none."""
        if fraction is not None:
            size = int(cupy.cuda.runtime.memGetInfo()[1] * fraction)
        _client.set_limit(size or None)
        self._limit = size or 0

    def get_limit(self) -> int:
        """As set here; 0: none."""
        return getattr(self, "_limit", 0)


class _PinnedPool:
    """cupy.cuda.PinnedMemoryPool's functions."""

    malloc = staticmethod(pinned_allocator)

    def n_free_blocks(self) -> int:
        """CuPy's pool keeps none."""
        return 0

    def free_all_blocks(self) -> None:
        """Gives gpumemd what nothing is in."""
        _client.flush()


def install(*, arrays: bool = True, pinned: bool = True) -> str:
    """Has CuPy take the memory of arrays, and pinned memory, from gpumemd. Says what was done.
    Compiled kernels are kept in the store too, see gpumem.kernels.

    For the whole process; arrays that are there keep their memory."""
    if _notice.is_disabled():
        return _serving.DISABLED
    _serving.check()
    if arrays:
        pool = _Pool(allocator())
        cupy.cuda.set_allocator(pool.malloc)
        cupy._default_memory_pool = pool  # what cupy.get_default_memory_pool() gives
    if pinned:
        cupy.cuda.set_pinned_memory_allocator(pinned_allocator)
        cupy._default_pinned_memory_pool = _PinnedPool()
    kernels.try_install("cupy")
    done = [name for name, wanted in (("arrays", arrays), ("pinned memory", pinned)) if wanted]
    return " and ".join(done) or "nothing"


__all__ = ["allocator", "install", "pinned_allocator"]
