# SPDX-License-Identifier: Apache-2.0
"""Numba: device and pinned memory from gpumemd, by Numba's interface for memory managers.

    NUMBA_CUDA_MEMORY_MANAGER=gpumem.numba python script.py

or `gpumem.numba.install()` before the first context. Numba frees memory in batches; a free does not
wait, unless the program has used streams that do not wait for the default one.
`array.get_ipc_handle()` gives a handle that travels as a token, if GPUMEM_NUMBA_SHAREABLE=1 was set
when the array was made. Write-combined and managed memory stay the driver's.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

from numba import cuda

from . import _client, _errors, _notice, _serving, _share, _streams, _structs, kernels
from ._library import load
from ._structs import DEVICE, PINNED

# Numba itself has an older numba.cuda, whose driver interface is another one.
if "numba_cuda" not in (cuda.__file__ or ""):
    raise _errors.Unsupported("numba.cuda is the older one that Numba itself has; gpumem serves the "
                              "package numba-cuda: pip install numba-cuda")

from cuda.bindings import driver as _binding  # noqa: E402
from numba.cuda.cudadrv import driver as _driver  # noqa: E402
from numba.cuda.cudadrv.driver import CudaAPIError  # noqa: E402

DONE = "device and pinned memory"

WAIT = 10.0  # seconds for memory that others hold

_OUT_OF_MEMORY = _binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY

# The program has given Numba a stream whose work is not in the default stream's order.
_has_unordered = False


def _note(handle: int) -> None:
    """A stream that Numba has not made. Frees wait for the whole context from the first one on that
    does not wait for the default stream."""
    global _has_unordered
    if _has_unordered or handle <= _streams.PER_THREAD:
        return
    result, flags = _binding.cuStreamGetFlags(_binding.CUstream(handle))
    non_blocking = int(_binding.CUstream_flags.CU_STREAM_NON_BLOCKING)
    _has_unordered = int(result) != 0 or bool(int(flags) & non_blocking)


def _noting(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of Numba's that takes any stream, and gives its handle or cuda.core's Stream."""

    @functools.wraps(function)
    def noting(stream: Any) -> Any:
        made = function(stream)
        if stream and not isinstance(stream, _driver.Stream):
            _note(int(getattr(made, "handle", made)))
        return made

    return noting


def _watch_streams() -> None:
    """Has those of cuda.external_stream() and of cuda.core noted."""
    create = _driver.Context.create_external_stream

    @functools.wraps(create)
    def create_external_stream(self: Any, ptr: int) -> Any:
        made = create(self, ptr)
        _note(ptr)
        return made

    _driver.Context.create_external_stream = create_external_stream
    for name in ("_stream_handle", "_to_core_stream"):
        if hasattr(_driver, name):
            setattr(_driver, name, _noting(getattr(_driver, name)))


def _finalizer(manager: Manager, pointer: int, size: int) -> Any:
    """As Numba's own memory ends: the last reference puts it into the list of what is to be freed.

    That list is emptied now and then, and not while cleanups are deferred."""
    allocations, deallocations, pid = manager.allocations, manager.deallocations, os.getpid()

    def free(address: int) -> None:
        if pid == os.getpid():
            end = load().free_sync if _has_unordered else load().free_later
            _client.check(end(None, address))

    def finalizer() -> None:
        if allocations:  # not after reset(), nor at exit
            allocations.pop(pointer, None)
        deallocations.add_item(free, pointer, size)

    return finalizer


def _ordinal(context: Any) -> int:
    """Of a Context's device, which in one that another library has made is the driver's own."""
    return int(getattr(context.device, "id", context.device))


class SharedHandle(_driver.IpcHandle):
    """Numba's IPC handle, which travels as a gpumemd token."""

    def __init__(self, token: str, size: int, offset: int = 0, base: Any = None) -> None:
        super().__init__(base, None, size, offset=offset)
        self.token = token
        self._buffer: Any = None

    def open(self, context: Any) -> Any:
        """A MemoryPointer of this process."""
        if self._buffer is not None:
            raise ValueError("IpcHandle is already opened")
        self._buffer = _share.attach(self.token, device=_ordinal(context))
        pointer = ctypes.c_void_p(self._buffer.pointer + self.offset)
        return _driver.MemoryPointer(weakref.proxy(context), pointer, self.size,
                                     owner=self._buffer)

    open_direct = open
    open_staged = open

    def close(self) -> None:
        """The memory is not this process's any more."""
        if self._buffer is None:
            raise ValueError("IpcHandle not opened")
        self._buffer.free()
        self._buffer = None

    def __reduce__(self) -> Any:
        return SharedHandle, (self.token, self.size, self.offset)


class Manager(_driver.HostOnlyCUDAMemoryManager):
    """Numba's memory manager over gpumemd; Numba makes one a context."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_ready = False
        self._is_shareable = _notice.is_set("GPUMEM_NUMBA_SHAREABLE")

    @property
    def interface_version(self) -> int:
        """That of Numba's documentation."""
        return 1

    def initialize(self) -> None:
        """The context is current. Called at each of its pushes."""
        super().initialize()
        if self._is_ready:
            return
        _serving.check(_ordinal(self.context))
        # Frees need not wait then: its work stands for that of all streams that Numba makes.
        # For others see _note.
        _client.stream_register(None)
        self.deallocations.memory_capacity = self.get_memory_info().total
        self._is_ready = True

    def reset(self) -> None:
        """The context's memory is given back, since the context may end."""
        super().reset()
        if self._is_ready:
            with contextlib.suppress(_errors.Error):  # the context is gone already
                _client.stream_unregister(None)
            self._is_ready = False

    def _allocate(self, kind: int, size: int, shareable: bool = False) -> int:
        flags = _structs.SHAREABLE if shareable else 0
        try:
            return _client.allocate(max(size, 1), kind=kind, flags=flags)
        except (_errors.OutOfMemory, _errors.NoDaemon):  # the next daemon is waited for, too
            self.deallocations.clear()
        try:
            return _client.allocate(max(size, 1), kind=kind, flags=flags, wait=WAIT)
        except _errors.OutOfMemory as error:
            raise CudaAPIError(_OUT_OF_MEMORY, str(error)) from None

    def _keep(self, memory_class: Any, handle: Any, pointer: int, size: int) -> Any:
        memory = memory_class(weakref.proxy(self.context), handle, size,
                              finalizer=_finalizer(self, pointer, size))
        self.allocations[pointer] = memory
        return memory.own()

    def memalloc(self, size: int) -> Any:
        """Device memory of the current context."""
        pointer = self._allocate(DEVICE, size, self._is_shareable)
        return self._keep(_driver.AutoFreePointer, ctypes.c_void_p(pointer), pointer, size)

    def memhostalloc(
        self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Any:
        """Pinned memory; all of it is portable, and the device has it at the same address."""
        if wc:
            return super().memhostalloc(size, mapped, portable, wc)
        pointer = self._allocate(PINNED, size)
        if mapped:
            return self._keep(_driver.MappedMemory, pointer, pointer, size)
        return _driver.PinnedMemory(weakref.proxy(self.context), pointer, size,
                                    finalizer=_finalizer(self, pointer, size))

    def get_memory_info(self) -> Any:
        """Free is what this process could have through gpumemd."""
        free, total = _driver.driver.cuMemGetInfo()
        return cuda.MemoryInfo(free=_client.free_bytes(None, free, total), total=total)

    def get_ipc_handle(self, memory: Any) -> SharedHandle:
        """A handle for another process. OSError for memory that was not made shareable."""
        pointer = int(memory.device_pointer)
        base = _client.describe(pointer).base
        try:
            token = _share.share_pointer(base)
        except _errors.NotOurs:
            raise OSError("the array's memory was not made to be shared: set "
                          "GPUMEM_NUMBA_SHAREABLE=1 before Numba makes it") from None
        return SharedHandle(token, memory.size, pointer - base, memory)


# What NUMBA_CUDA_MEMORY_MANAGER=gpumem.numba chooses.
_numba_memory_manager = _driver.NumbaCUDAMemoryManager if _notice.is_disabled() else Manager

if not _notice.is_disabled():
    _watch_streams()


def _install(manager: Callable[..., Any]) -> str:
    if _notice.is_disabled():
        return _serving.DISABLED
    other = os.environ.get("NUMBA_CUDA_MEMORY_MANAGER", "default")
    if other not in ("", "default", __name__):
        raise _errors.Unsupported(f"NUMBA_CUDA_MEMORY_MANAGER={other} chooses another manager")
    load()  # one that does not fit is refused now, and not in the middle of the program
    cuda.set_memory_manager(manager)
    kernels.try_install("numba")
    return DONE


def install_where_served(
    tell_served: Callable[[str], None], tell_not_served: Callable[[Exception], None]
) -> None:
    """install() for `python -m gpumem run`: a device that gpumemd does not have stays Numba's.

    One of both is called at each device's first use."""

    def manager(context: Any) -> Any:
        if context is None:  # Numba asks for its version
            return Manager(context=None)
        device = _ordinal(context)
        try:
            _serving.check(device)
        except _errors.Error as error:
            tell_not_served(error)
            return _driver.NumbaCUDAMemoryManager(context=context)
        tell_served(f"{DONE} of CUDA device {device}")
        return Manager(context=context)

    _install(manager)


def install() -> str:
    """Has Numba use Manager, before it makes a context, and keep kernels with cache=True in the
    store. Says what was done.

    gpumemd is asked at a device's first use, as Numba asks the driver then: until that a program may
    fork. A device that it does not have is an error there."""
    return _install(Manager)
