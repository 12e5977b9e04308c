# SPDX-License-Identifier: Apache-2.0
"""As much of PyTorch as bench/peers/torch_rival.py calls, with a caching allocator that reserves twice what
it is asked for and gives nothing back.
"""

import types

uint8 = 'uint8'


class Device:
    """Its memory."""
    sizes = {}
    n_allocs = live = reserved = 0

    @classmethod
    def alloc(cls, n_bytes, _device=None, _stream=None):
        cls.n_allocs += 1
        cls.sizes[cls.n_allocs] = n_bytes
        cls.live += n_bytes
        cls.reserved = max(cls.reserved, 2 * cls.live)
        return cls.n_allocs

    @classmethod
    def delete(cls, pointer):
        cls.live -= cls.sizes.pop(pointer)


def empty(n_bytes, dtype, device):
    assert dtype == uint8 and device == 'cuda'
    return bytearray(n_bytes)


def nothing(*_):
    pass


cuda = types.SimpleNamespace(
    is_available=lambda: True, init=nothing, set_device=nothing,
    current_stream=lambda: types.SimpleNamespace(cuda_stream=0),
    caching_allocator_alloc=Device.alloc, caching_allocator_delete=Device.delete,
    memory_reserved=lambda: Device.reserved)
