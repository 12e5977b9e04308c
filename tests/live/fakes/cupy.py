"""As much of CuPy as bench/peers/cupy_rival.py calls, over no memory at all."""

import os
import time
import types

uint8 = 'uint8'


class Memory:
    """A piece of it."""
    ptr = 0


class Pool:
    """Of device memory."""

    def malloc(self, n_bytes):
        assert isinstance(n_bytes, int) and n_bytes > 0
        if os.environ.get('FAKE_CUPY_HANGS'):
            time.sleep(1000)
        return Memory()

    def free_all_blocks(self):
        pass


POOL = Pool()


class Stream:
    """One that is never busy."""
    ptr = 0

    def __init__(self, non_blocking=False):
        assert non_blocking

    def use(self):
        pass

    def synchronize(self):
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
    return bytearray(n_bytes)


cuda = types.SimpleNamespace(
    Device=Device, Stream=Stream, alloc=POOL.malloc, alloc_pinned_memory=POOL.malloc,
    get_current_stream=lambda: Stream(non_blocking=True),
    memory=types.SimpleNamespace(OutOfMemoryError=MemoryError),
    runtime=types.SimpleNamespace(CUDARuntimeError=RuntimeError, free=lambda _: None,
                                  memcpyAsync=lambda *_: None))
