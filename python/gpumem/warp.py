# SPDX-License-Identifier: Apache-2.0
"""Warp: arrays on CUDA devices from gpumemd.

    import gpumem.warp
    gpumem.warp.install()         # before the first stream is made

An array is an allocation in the order of its device's current stream. One that is made in a capture
is the graph's. Pinned arrays, and what Warp allocates in C++ (of hash grids, meshes, volumes), stay
Warp's.

Warp tells an allocator nothing of the streams that have used an array. So, as with Warp's own
allocator, the memory of an array that ends while several streams are there waits for all of them.
While a device has one stream, the memory is free at once in that stream's order. CuPy, Numba and
cuda.core count as several: they may have made streams.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import warp
import warp._src.context as _context

from . import _driver, _errors, _notice, _stream_memory, _serving
from ._library import load

if not hasattr(warp, "set_device_allocator"):
    raise _errors.Unsupported("this warp takes no allocator: gpumem serves warp-lang 1.13 and newer: "
                              "pip install --upgrade warp-lang")

# How many streams each device has, as far as that is known; one is made with its context.
_n_streams: dict[int, int] = {}
_SEVERAL = 2

# Their streams may wait for the default stream, and be unknown here. Torch's never do.
_OTHERS = ("cupy", "numba.cuda", "cuda.core", "cuda.bindings", "pycuda")


class Allocator:
    """For warp.set_device_allocator or warp.ScopedAllocator: the memory of one device's arrays.

    Warp makes the device's context current around both calls."""

    def __init__(self, device: Any) -> None:
        """`device` is Warp's Device or its name."""
        self._device = device if hasattr(device, "ordinal") else warp.get_device(device)
        if self._device.ordinal < 0:
            raise _errors.Unsupported(f"{device} is not a CUDA device: gpumem.warp has no other "
                                      "memory")
        self._ordinal = self._device.ordinal
        self._take, self._give = _stream_memory.ends(self._ordinal)
        self._captures = _driver.captures()
        self._first: Any = None  # the device's stream, which is the only one at first
        self._streams: dict[int, Any] = {}  # address: its stream, of those of other streams
        self._of_graphs: dict[int, Any] = {}  # address: the stream whose capture it was made in
        self._held: list[tuple[int, Any, bool]] = []  # what ended while a stream captured

    def _has_one_stream(self) -> bool:
        return _n_streams.get(self._ordinal, _SEVERAL) < _SEVERAL and not any(
            name in sys.modules for name in _OTHERS
        )

    def _end_held(self) -> None:
        held, self._held = self._held, []
        while held:
            pointer, stream, is_of_graph = held.pop(0)
            try:
                (self._end_of_graph if is_of_graph else self._end_of_several)(pointer, stream)
            except _errors.NotOurs:
                pass  # it was said
            except _errors.Error:  # it was said; the next allocation tries again
                self._held += [(pointer, stream, is_of_graph), *held]
                return

    def _end_of_graph(self, pointer: int, stream: Any) -> None:
        # Other streams of the capture may read it, in nodes that its own stream does not wait for.
        if self._captures(stream.cuda_stream):
            self._held.append((pointer, stream, True))
            return
        result = load().free_in_order(None, pointer)
        if result:
            _stream_memory.refuse(result)

    def _end_of_several(self, pointer: int, stream: Any) -> None:
        # The default stream stands for all of Warp's: those of others that do not wait for it are
        # ordered by the program, as with Warp's own allocator.
        if self._captures(0):  # nothing can be recorded there
            self._held.append((pointer, stream, False))
            return
        result = load().record_use(None, pointer, None)
        if result:
            _stream_memory.refuse(result)
        else:
            self._give(pointer, stream.cuda_stream or 0)

    def allocate(self, size_in_bytes: int) -> int:
        """The address of new memory in the order of the device's stream. OutOfMemory is a
        RuntimeError, as Warp raises."""
        if self._held:
            self._end_held()
        stream = self._device.stream
        handle = stream.cuda_stream or 0
        pointer = self._take(size_in_bytes, handle)
        if self._first is None:
            self._first = stream
        if stream is not self._first:
            _n_streams[self._ordinal] = _SEVERAL
            self._streams[pointer] = stream
        if self._captures(handle):
            self._of_graphs[pointer] = stream
        return pointer

    def deallocate(
        self, ptr: int, size_in_bytes: int, _ends: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """An array's end. Of a process that ends, gpumemd takes the memory back."""
        if not ptr or _ends():
            return
        of_graph = self._of_graphs.pop(ptr, None)
        stream = self._streams.pop(ptr, self._first)
        if self._has_one_stream():
            self._give(ptr, stream.cuda_stream or 0)
        elif of_graph is not None:
            self._end_of_graph(ptr, of_graph)
        else:
            self._end_of_several(ptr, stream)


def _count_streams() -> None:
    begin = warp.Stream.__init__

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        if self.cuda_stream is not None:
            ordinal = self.device.ordinal
            _n_streams[ordinal] = _n_streams.get(ordinal, 0) + 1

    warp.Stream.__init__ = __init__


def _serve_later() -> None:
    """Warp's devices are not there before warp.init(), which programs call by themselves."""
    device_class = _context.Device
    begin = device_class.__init__

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        if self.ordinal >= 0:
            self._custom_allocator = Allocator(self)

    device_class.__init__ = __init__


_is_installed = False


def install() -> str:
    """Has arrays on each CUDA device use an Allocator. Says what was done.

    warp.set_cuda_allocator() takes its place, as ever. Arrays that are there keep their memory."""
    global _is_installed
    if _notice.is_disabled():
        return _serving.DISABLED
    _serving.check()
    if _is_installed:
        return "arrays on CUDA devices, as before"
    if _context.runtime is None:
        _serve_later()
    else:
        for device in warp.get_cuda_devices():
            _n_streams[device.ordinal] = _SEVERAL  # it is not known which there are
            warp.set_device_allocator(device, Allocator(device))
    _count_streams()
    _is_installed = True
    return "arrays on CUDA devices"


__all__ = ["Allocator", "install"]
