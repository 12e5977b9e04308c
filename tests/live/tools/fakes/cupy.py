# SPDX-License-Identifier: Apache-2.0
"""As much of CuPy as bench/peers/cupy_rival.py calls, over no memory at all."""

import os
import time
import types

uint8 = 'uint8'


class Memory:
    """A piece of it."""


class Pool:
    """Of device memory."""

    def malloc(self, n_bytes):
        assert isinstance(n_bytes, int) and n_bytes > 0
        return Memory()

    def free_all_blocks(self):
        pass


POOL = Pool()


class Stream:
    """One that is never busy."""

    def __init__(self, non_blocking=False):
        assert non_blocking

    def use(self):
        pass


class Device:
    """The only one."""

    def __init__(self, number):
        assert number == 0

    def use(self):
        pass


def get_default_memory_pool():
    return POOL


def empty(n_bytes, dtype):
    assert dtype == uint8
    if os.environ.get('FAKE_CUPY_HANGS'):
        time.sleep(1000)
    return bytearray(n_bytes)


cuda = types.SimpleNamespace(
    Device=Device, Stream=Stream,
    runtime=types.SimpleNamespace(CUDARuntimeError=RuntimeError, free=lambda _: None))
