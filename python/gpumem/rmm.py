# SPDX-License-Identifier: Apache-2.0
"""RMM: device memory from gpumemd, for cuDF, cuML and all that allocates by RMM.

    import gpumem.rmm
    gpumem.rmm.install()

Every device's resource is then one whose memory is gpumemd's, and so is that of programs which set
RMM's allocators in CuPy, Numba or PyTorch. A program that sets a resource of its own, or calls
rmm.reinitialize(), has that one. `resource(device)` makes one to be set by hand, or to be put under
RMM's adaptors.
"""

from __future__ import annotations

import functools
from typing import Any

import rmm.mr

from . import _driver, _notice, _stream_memory, _serving


@functools.cache
def _ends(device: int) -> tuple[Any, Any]:
    """RMM may call them after its resource's end, which owns them no more: they stay."""
    alloc, free = _stream_memory.functions()

    def allocate(n_bytes: int, stream: Any) -> int:
        made = alloc(n_bytes, device, stream.__cuda_stream__()[1])
        return made if made >= _stream_memory.ADDRESSES else _stream_memory.taken(made, n_bytes)

    def deallocate(pointer: int, n_bytes: int, stream: Any) -> None:
        result = free(pointer, stream.__cuda_stream__()[1])
        if result:
            _stream_memory.given(result, pointer)

    return allocate, deallocate


def resource(device: int | None = None) -> Any:
    """An rmm.mr.CallbackMemoryResource for a device; None: the current one.

    Memory is in the order of the stream that RMM names, at both ends. Out of memory is RMM's own
    MemoryError."""
    place = _driver.current_device() if device is None else device
    return rmm.mr.CallbackMemoryResource(*_ends(place))


def install() -> str:
    """Sets a resource of gpumemd's for each device of the process. Says what was done.

    Memory that is there stays its resource's."""
    if _notice.is_disabled():
        return _serving.DISABLED
    _serving.check()
    _, names = _driver.devices()
    for device in range(len(names)):
        rmm.mr.set_per_device_resource(device, resource(device))
    return f"device memory of {len(names)} device{'s' if len(names) != 1 else ''}"


__all__ = ["install", "resource"]
