# SPDX-License-Identifier: Apache-2.0
"""Arrays of Warp 1.19, as far as gpumem.warp and its test use them: the wheel has 149 MB."""

import math
import types

from ._src import context
from ._src.context import Stream, get_device, init

config = types.SimpleNamespace(quiet=False)
uint8 = 'uint8'


def get_cuda_devices():
    return [device for device in context.devices.values() if device.ordinal >= 0]


def set_device_allocator(device, allocator):
    get_device(device)._custom_allocator = allocator


def set_cuda_allocator(allocator):
    for device in get_cuda_devices():
        device._custom_allocator = allocator


def get_device_allocator(device):
    return get_device(device).get_allocator()


class ScopedStream:
    """A stream that is current in its block; without the events of Warp's."""

    def __init__(self, stream, sync_enter=True, sync_exit=False):
        self.stream = stream

    def __enter__(self):
        self.before, self.stream.device._stream = self.stream.device.stream, self.stream

    def __exit__(self, *unused):
        self.stream.device._stream = self.before


class empty:  # noqa: N801 - Warp's is a function
    """An array of bytes; Warp makes the device's context current around both calls of an allocator."""

    def __init__(self, shape, dtype=None, device=None):
        device = get_device(device)
        device.stream  # noqa: B018 - made with the context
        context.runtime.make_current(device.ordinal)
        self.allocator = device.get_allocator()
        self.deleter = self.allocator.deallocate
        self.device = device
        self.capacity = math.prod(shape)
        self.ptr = self.allocator.allocate(self.capacity) if self.capacity else None

    def __del__(self):
        if getattr(self, 'ptr', None):
            context.runtime.make_current(self.device.ordinal)
            self.deleter(self.ptr, self.capacity)


__all__ = ['Stream', 'get_device', 'init']
