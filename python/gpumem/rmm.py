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

from typing import Any

import rmm.mr

from . import _client, _driver, _notice, _ordered


def resource(device: int | None = None) -> Any:
    """An rmm.mr.CallbackMemoryResource for a device; None: the current one.

    Memory is in the order of the stream that RMM names, at both ends. Out of memory is RMM's own
    MemoryError."""
    place = _driver.current_device() if device is None else device
    take, give = _ordered.ends(place)

    def allocate(n_bytes: int, stream: Any) -> int:
        return take(n_bytes, stream.__cuda_stream__()[1])

    def deallocate(pointer: int, n_bytes: int, stream: Any) -> None:
        give(pointer, stream.__cuda_stream__()[1])

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def install() -> str:
    """Sets a resource of gpumemd's for each device of the process. Says what was done.

    Memory that is there stays its resource's."""
    if _notice.is_disabled():
        return "nothing: GPUMEM_DISABLE is set"
    _client.connect()
    _, names = _driver.devices()
    for device in range(len(names)):
        rmm.mr.set_per_device_resource(device, resource(device))
    return f"device memory of {len(names)} device{'s' if len(names) != 1 else ''}"


__all__ = ["install", "resource"]
