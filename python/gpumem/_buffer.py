# SPDX-License-Identifier: Apache-2.0
"""Buffers: memory with a shape and a type, which others read by DLPack and by array interfaces.

A buffer's memory is freed when no reference to the buffer is left. What leaves it by DLPack, by an array
interface or by view() refers to it.
"""

from __future__ import annotations

import _thread
import os
import sys

from . import _client, _dtypes, _streams, _structs
from ._dtypes import DType
from ._library import load
from ._structs import PINNED

TYPE_CHECKING = False  # typing costs more than the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CUDA, _CUDA_HOST, _CUDA_MANAGED = 2, 3, 13  # DLPack's types of devices

Shape = int | tuple[int, ...] | list[int]

_free_lock = _thread.allocate_lock()


def _after_fork_in_child() -> None:
    global _free_lock  # the thread that had it is the parent's
    _free_lock = _thread.allocate_lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def shape_of(shape: Shape) -> tuple[int, ...]:
    """A tuple of lengths. ValueError for a negative one."""
    if hasattr(shape, "__index__"):
        shape = (shape,)
    elif isinstance(shape, str | bytes) or not hasattr(shape, "__iter__"):
        raise TypeError(f"the shape is {shape!r}; a whole number, or a tuple of them, is needed")
    made = tuple(_client.whole("a length", n) for n in shape)
    if any(n < 0 for n in made):
        raise ValueError(f"a negative length in {made}")
    return made


def n_elements(shape: tuple[int, ...]) -> int:
    """As math.prod, which is a module of its own."""
    n = 1
    for length in shape:
        n *= length
    return n


class Buffer:
    """`nbytes` bytes of memory at `pointer`, by gpumem.empty, pinned, attach or from_dlpack."""

    __slots__ = ("pointer", "nbytes", "shape", "strides", "dtype", "place", "stream",
                 "_owner", "_end", "_is_exported", "_pid", "__weakref__")

    kind = ""

    pointer: int  # an address; 0 for no bytes
    nbytes: int
    shape: tuple[int, ...]  # lengths, in elements
    strides: tuple[int, ...] | None  # in elements; None: one after another, the last index fastest
    dtype: DType
    place: int  # CUDA ordinal, or NUMA node
    stream: int  # CUstream in whose order the memory is; 0: the legacy default stream

    def __init__(
        self, pointer: int, shape: tuple[int, ...], dtype: DType, *, place: int, stream: int = 0,
        strides: tuple[int, ...] | None = None, owner: Any = None,
        end: Callable[[Buffer], int] | None = None,
    ) -> None:  # fmt: skip
        """`end` gives the memory back, and gives a result of C; without it, it is `owner`'s."""
        self._end = end
        self._pid = os.getpid()
        self.pointer, self.shape, self.strides, self.dtype = pointer, shape, strides, dtype
        self.nbytes = n_elements(shape) * dtype.itemsize
        self.place, self.stream = place, stream
        self._owner = owner
        self._is_exported = False

    def free(self) -> None:
        """Gives the memory back now. Nothing may use it afterwards; a second time does nothing."""
        with _free_lock:
            end, self._end = self._end, None
        if end is not None and self.pointer and self._pid == os.getpid():
            try:
                _client.check(end(self))
            except Exception:
                self._end = end  # nothing was freed
                raise
        self._owner = None
        self.pointer, self.nbytes, self.shape = 0, 0, (0,)

    def __del__(
        self, _getpid: Callable[[], int] = os.getpid, _ends: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        # A forked child has not the memory. Of a process that ends, gpumemd takes it back.
        end = self._end
        if end is None or not self.pointer or self._pid != _getpid() or _ends():
            return
        self._end = None
        result = end(self)
        if result:
            raise _client.error(result)

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *unused: object) -> None:
        self.free()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a buffer without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return (f"<gpumem.{type(self).__name__} {self.shape} {self.dtype} at {self.pointer:#x}, "
                f"place {self.place}>")

    def view(self, shape: Shape, dtype: Any = None) -> Buffer:
        """The same memory, or its beginning, with another shape and type. It keeps this one."""
        made_shape = shape_of(shape)
        made_dtype = self.dtype if dtype is None else _dtypes.parse(dtype)
        if self.strides is not None:
            raise ValueError("a view of memory with gaps: its strides are not known")
        n_bytes = n_elements(made_shape) * made_dtype.itemsize
        if n_bytes > self.nbytes:
            raise ValueError(f"a view of {n_bytes} bytes; {self.nbytes} are here")
        self._is_exported = True
        return type(self)(self.pointer, made_shape, made_dtype, place=self.place,
                          stream=self.stream, owner=self)

    def record_use(self, stream: Any) -> None:
        """Work of `stream` uses the memory too: it is not reused before that is over.

        The stream lives until the memory is freed. Not for views."""
        _client.check(load().record_use(None, self.pointer, _streams.handle(stream) or None))

    def _interface(self) -> dict[str, Any]:
        typestr = self.dtype.typestr
        if typestr is None:
            raise AttributeError(f"{self.dtype} has no typestr: use DLPack (from_dlpack)")
        self._is_exported = True
        n = self.dtype.itemsize
        strides = None if self.strides is None else tuple(stride * n for stride in self.strides)
        pointer = self.pointer if self.nbytes else 0  # as both interfaces want it for no elements
        return {"shape": self.shape, "typestr": typestr, "data": (pointer, False),
                "strides": strides, "version": 3}

    def _order(self, stream: int | None) -> None:
        """Has the consumer's stream wait for what is under way here."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise NotImplementedError

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """A DLPack capsule; versioned for consumers with max_version (1, 0) or newer."""
        device = self.__dlpack_device__()
        if copy:
            raise BufferError("a Buffer gives its own memory, no copy of it")
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"the memory is on DLPack's device {device}, not on {dl_device}")
        self._order(stream)
        self._is_exported = True
        from . import _dlpack

        return _dlpack.capsule(self, device, max_version)


class DeviceBuffer(Buffer):
    """Memory of a GPU: `__cuda_array_interface__` (version 3) and DLPack."""

    __slots__ = ()
    kind = "device"

    @property
    def device(self) -> int:
        """The CUDA ordinal in this process."""
        return self.place

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._interface(), "stream": self.stream or _streams.LEGACY}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA, self.place)

    def _order(self, stream: int | None) -> None:
        if stream == -1:  # the consumer sees to it
            return
        if stream == 0:
            raise ValueError("DLPack's stream 0 is none: 1 is the default stream, 2 a thread's")
        consumer = _streams.handle(stream)
        if consumer == self.stream or not self.pointer:
            return
        from . import _driver

        with _driver.context_of(self.place):  # whose default stream it is, whatever is current
            _client.check(load().stream_wait(None, consumer or None, self.stream or None))


class PinnedBuffer(Buffer):
    """Pinned host memory: `numpy.asarray(buffer)`, `buffer.numpy()` and DLPack see it uncopied."""

    __slots__ = ()
    kind = "pinned"

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface()

    def numpy(self) -> Any:
        """A numpy.ndarray of this memory, which keeps it."""
        import numpy  # the caller's wish

        return numpy.asarray(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA_HOST, 0)


def _end_device(buffer: Buffer) -> int:
    # Consumers may have used it in streams that gpumem does not know.
    library = load()
    if buffer._is_exported:
        return library.free_later(None, buffer.pointer)
    return library.free_in_order(None, buffer.pointer)


def _end_waiting(buffer: Buffer) -> int:
    return load().free_later(None, buffer.pointer)


def _end_attached(buffer: Buffer) -> int:
    if buffer._is_exported:  # as in _end_device
        return load().detach_sync(None, buffer.pointer)
    return load().detach(None, buffer.pointer, buffer.stream or None)


def _flags(shareable: bool, registered: bool, rdma: bool = False) -> int:
    """Of gpumem_alloc, for memory with a block of its own."""
    asked = ((shareable, _structs.SHAREABLE), (registered, _structs.REGISTERED), (rdma, _structs.RDMA))
    return sum(flag for is_asked, flag in asked if is_asked)


def empty(
    shape: Shape, dtype: Any = "uint8", *, device: int | str | None = None, stream: Any = None,
    shareable: bool = False, registered: bool = False, rdma: bool = False, wait: float = 10.0,
) -> DeviceBuffer:  # fmt: skip
    """Device memory for `shape` elements of `dtype`; contents undefined.

    device: CUDA ordinal, or "cuda:0"; None: the current context's, without one device 0. A thread
    without a context, or with another device's, gets memory in the primary context.
    stream: a handle or a stream object in whose order the memory is allocated, used and freed;
    None: the legacy default stream.
    shareable: share() may give it to other processes.
    registered: it has a block of its own, which is never reused; export_dmabuf() may export it.
    rdma: registered, and made for GPUDirect RDMA. Unsupported where the device has none.
    wait: seconds to wait for memory that others hold, ten minutes at most. Raises OutOfMemory.
    """
    if device is not None:
        device = _client.ordinal(device)
    made_shape, made_dtype = shape_of(shape), _dtypes.parse(dtype)
    number = _streams.handle(stream)
    n_bytes = n_elements(made_shape) * made_dtype.itemsize
    flags = _flags(shareable, registered, rdma)
    pointer = _client.allocate(n_bytes, place=device, stream=number, flags=flags, wait=wait)
    place = device if device is not None else _client.place_of(pointer) if pointer else 0
    return DeviceBuffer(pointer, made_shape, made_dtype, place=place, stream=number,
                        end=_end_waiting if flags else _end_device)


def pinned(
    shape: Shape, dtype: Any = "uint8", *, node: int | None = None, shareable: bool = False,
    registered: bool = False, wait: float = 10.0,
) -> PinnedBuffer:  # fmt: skip
    """Pinned host memory for `shape` elements of `dtype`; contents undefined.

    node: NUMA node; None: the one next to the current context's device, or to the calling CPU.
    The memory is not reused before work is over that is under way when it is freed: in the context
    that was current at the allocation, and in the current one. record_use() names other streams.
    """
    made_shape, made_dtype = shape_of(shape), _dtypes.parse(dtype)
    n_bytes = n_elements(made_shape) * made_dtype.itemsize
    flags = _flags(shareable, registered)
    pointer = _client.allocate(n_bytes, kind=PINNED, place=node, flags=flags, wait=wait)
    place = node if node is not None else _client.place_of(pointer) if pointer else 0
    return PinnedBuffer(pointer, made_shape, made_dtype, place=place, end=_end_waiting)


def from_dlpack(exporter: Any, *, stream: Any = None) -> Buffer:
    """A Buffer over memory of another library, ready for work in `stream`; the other frees it.

    Device memory gives a DeviceBuffer, pinned host memory a PinnedBuffer. BufferError for others.
    """
    from . import _dlpack

    kind, place = exporter.__dlpack_device__()
    number = _streams.handle(stream)
    if kind in (_CUDA, _CUDA_MANAGED):
        taken = _dlpack.take(exporter, number or _streams.LEGACY)
        made: type[Buffer] = DeviceBuffer
    elif kind == _CUDA_HOST:
        taken = _dlpack.take(exporter, None)
        made = PinnedBuffer
    else:
        raise BufferError(f"DLPack's device type {kind} is neither a GPU's nor pinned host memory")
    return made(taken.pointer, taken.shape, taken.dtype, place=place, stream=number,
                strides=taken.strides, owner=taken)
