# SPDX-License-Identifier: Apache-2.0
"""cuda.core: device memory from gpumemd, as a MemoryResource.

    import gpumem.cuda_core
    gpumem.cuda_core.install()

A Device that has no memory resource yet then has one of gpumemd's, in every thread: so
device.allocate() and device.memory_resource are gpumemd's memory. By hand, for one Device object:
device.memory_resource = gpumem.cuda_core.Resource(device). Pinned and managed memory, and memory
for cuda.core's IPC descriptors, are of cuda.core's own resources as before.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from cuda.core import Buffer, Device, MemoryResource
from cuda.core import __version__ as _version

from . import _errors, _notice, _stream_memory, _serving

try:
    from cuda.core._utils.cuda_utils import CUDAError
except ImportError:  # it has moved
    CUDAError = RuntimeError  # type: ignore[assignment,misc]

DONE = "device memory"

_OLDEST = (1, 2)  # before it a buffer did not know the stream of its end

if tuple(int(number) for number in _version.split(".")[:2]) < _OLDEST:
    raise _errors.Unsupported(f"cuda-core {_version} is too old: gpumem serves 1.2 "
                              "and newer: pip install --upgrade cuda-core")


class OutOfMemory(_errors.OutOfMemory, CUDAError):
    """gpumem.OutOfMemory, for programs that catch cuda.core's CUDAError."""


class Resource(MemoryResource):
    """Device memory of one device. Its buffers end in the order of their streams."""

    def __init__(self, device: Any) -> None:
        """`device` is a Device or its number."""
        self._device_id = Device(device).device_id
        self._alloc, self._free = _stream_memory.functions()

    def allocate(self, size: int, *, stream: Any) -> Any:
        """A Buffer in the order of `stream`, a Stream or a GraphBuilder that captures."""
        if type(size) is not int:  # as NumPy's
            size = operator.index(size)
        pointer = self._alloc(size, self._device_id, stream.__cuda_stream__()[1])
        if pointer < _stream_memory.ADDRESSES:
            try:
                pointer = _stream_memory.taken(pointer, size)
            except _errors.OutOfMemory as error:
                raise OutOfMemory(str(error), error.result) from None
        return Buffer.from_handle(pointer, size, mr=self, stream=stream)

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """Called at a buffer's end. The memory is not used before `stream` has come so far."""
        pointer = ptr if type(ptr) is int else int(ptr)
        if pointer:
            result = self._free(pointer, stream.__cuda_stream__()[1])
            if result:
                _stream_memory.given(result, pointer)

    @property
    def device_id(self) -> int:
        """The CUDA ordinal."""
        return self._device_id

    @property
    def is_device_accessible(self) -> bool:
        """It is device memory."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """The CPU cannot read it."""
        return False

    @property
    def is_managed(self) -> bool:
        """It does not migrate."""
        return False


_is_installed = False


def _replace(choose: Callable[[Any], Any]) -> None:
    """Has each Device without a memory resource use what `choose` gives for it; None: cuda.core's own.

    cuda.core has a Device object for each thread, so its property is replaced."""
    global _is_installed
    theirs = Device.memory_resource

    def memory_resource(self: Any) -> Any:
        if self._memory_resource is None:
            self._memory_resource = choose(self)
        return theirs.__get__(self)

    Device.memory_resource = property(memory_resource, theirs.__set__, doc=theirs.__doc__)
    _is_installed = True


def install_where_served(
    tell_served: Callable[[str], None], tell_not_served: Callable[[Exception], None]
) -> None:
    """install() for `python -m gpumem run`: a device that gpumemd does not have stays cuda.core's.

    Others import cuda.core, and never use it: gpumemd is asked at a device's first use, and one of
    both is called."""
    told: set[int] = set()  # by other threads, which have Devices of their own

    def choose(device: Any) -> Any:
        is_first = device.device_id not in told
        told.add(device.device_id)
        try:
            _serving.check(device.device_id)
        except _errors.Error as error:
            if is_first:
                tell_not_served(error)
            return None
        if is_first:
            tell_served(f"{DONE} of CUDA device {device.device_id}")
        return Resource(device)

    if not _is_installed:
        _replace(choose)


def install() -> str:
    """Has each Device use a Resource, unless it has a memory resource already. Says what was done."""
    if _notice.is_disabled():
        return _serving.DISABLED
    _serving.check()
    if _is_installed:
        return "device memory, as before"
    _replace(Resource)
    return DONE


__all__ = ["OutOfMemory", "Resource", "install", "install_where_served"]
