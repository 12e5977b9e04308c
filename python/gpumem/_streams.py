# SPDX-License-Identifier: Apache-2.0
"""CUDA streams as programs have them: handles, and objects of any framework."""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False  # typing costs more than the rest of this package
if TYPE_CHECKING:
    from typing import Any

LEGACY = 1
PER_THREAD = 2

# torch; cuda.core before its protocol, and numba; CuPy
_ATTRIBUTES = ("cuda_stream", "handle", "ptr")


def _number(value: Any) -> int:
    if isinstance(value, ctypes.c_void_p):
        return value.value or 0
    return int(value)


def handle(stream: Any) -> int:
    """The CUstream of a handle or of a stream object; 0, the legacy default stream, for None.

    Objects are asked by `__cuda_stream__()`, else for `cuda_stream`, `handle` or `ptr`.
    """
    if stream is None:
        return 0
    if isinstance(stream, int):
        return 0 if stream == LEGACY else stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return handle(_number((protocol() if callable(protocol) else protocol)[1]))
    for name in _ATTRIBUTES:
        if hasattr(stream, name):
            return handle(_number(getattr(stream, name)))
    raise TypeError(f"{type(stream).__name__} is no CUDA stream: give a handle (int), or an object "
                    "with __cuda_stream__()")
