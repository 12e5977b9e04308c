# SPDX-License-Identifier: Apache-2.0
"""Devices and streams as Warp 1.19 has them, as far as gpumem.warp and its test use them."""

import world

runtime = None


class Stream:
    """One that Warp makes, or with cuda_stream= another's."""

    def __init__(self, device=None, priority=0, **options):
        self.device = get_device(device)
        self.owner = 'cuda_stream' not in options
        self.cuda_stream = runtime.stream() if self.owner else options['cuda_stream']


class Device:
    """A GPU, or with -1 the CPU. Its streams are made with its context, when they are first asked for."""

    def __init__(self, ordinal):
        self.ordinal = ordinal
        self._custom_allocator = None
        self._stream = None

    @property
    def stream(self):
        if self._stream is None:
            runtime.make_current(self.ordinal)
            self._stream = Stream(self)
            self.null_stream = Stream(self, cuda_stream=None)
        return self._stream

    def get_allocator(self, pinned=False):
        return self._custom_allocator


devices = {}


def init():
    global runtime
    if runtime is None:
        runtime = world.Cuda()
        for ordinal in (-1, 0, 1):
            devices[f'cuda:{ordinal}' if ordinal >= 0 else 'cpu'] = Device(ordinal)


def get_device(name):
    return name if isinstance(name, Device) else devices[name]
