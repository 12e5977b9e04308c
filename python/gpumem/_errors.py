# SPDX-License-Identifier: Apache-2.0
"""Exceptions, and the results of C functions that they are made of."""

from __future__ import annotations

import errno

REFUSED, LIMIT, TOO_LARGE, DEVICE_FULL, TIMED_OUT = 1, 2, 3, 4, 5
NOT_OURS, DISCONNECTED, UNSUPPORTED = 7, 8, 9
NO_DRIVER, NO_CONTEXT, NO_POOL, WRONG_STREAM = 11, 12, 13, 14
BAD_REQUEST, VERSION, DENIED = 15, 18, 22
NO_TOKEN, NOT_SHAREABLE, ATTACHED, NOT_ATTACHED = 30, 31, 32, 33
GRAPH_POOL_OPEN, CAPTURES = 55, 56


class Error(RuntimeError):
    """What gpumem could not do. `result` is the C function's: GPUMEM_E_*, or a negative errno."""

    def __init__(self, text: str, result: int = 0) -> None:
        super().__init__(text)
        self.result = result


class OutOfMemory(Error, MemoryError):
    """Memory was refused: by a limit, since others have it, or by the device. str() says which."""


class NoDaemon(Error):
    """gpumemd cannot be reached, or may not be by this user."""


class NoDriver(Error):
    """There is no CUDA driver, or no context where one is needed."""


class NotOurs(Error, ValueError):
    """The pointer, or the token, is not of memory that this process may use."""


class Unsupported(Error, NotImplementedError):
    """Not possible here; str() says what to do instead."""


_CLASSES = {
    REFUSED: OutOfMemory, LIMIT: OutOfMemory, TOO_LARGE: OutOfMemory, DEVICE_FULL: OutOfMemory,
    TIMED_OUT: OutOfMemory, -errno.ENOMEM: OutOfMemory,
    DISCONNECTED: NoDaemon, DENIED: NoDaemon, VERSION: NoDaemon,
    NO_DRIVER: NoDriver, NO_CONTEXT: NoDriver,
    NOT_OURS: NotOurs, NO_TOKEN: NotOurs, NOT_SHAREABLE: NotOurs, ATTACHED: NotOurs,
    NOT_ATTACHED: NotOurs,
    UNSUPPORTED: Unsupported, -errno.E2BIG: Unsupported,
}  # fmt: skip


# What C's texts name, and Python calls otherwise.
_WORDS = {
    "GPUMEM_REGISTERED and GPUMEM_RDMA": "registered and rdma", "GPUMEM_SHAREABLE": "shareable=True",
    "GPUMEM_REGISTERED": "registered=True", "GPUMEM_RDMA": "rdma=True", "(wait_ms)": "(wait=)",
    "keep_ms": "keep", "gpumem_set_limit": "gpumem.set_limit", "gpumem_flush": "gpumem.flush",
    "gpumem_reserve": "gpumem.reserve", "expected gpumem_detach": "expected: its buffer ends",
    "expected gpumem_free": "expected: its buffer ends",
}  # fmt: skip


def make(result: int, text: str) -> Error:
    """The exception for a result that is not 0."""
    for of_c, here in _WORDS.items():
        text = text.replace(of_c, here)
    return _CLASSES.get(result, Error)(text, result)
