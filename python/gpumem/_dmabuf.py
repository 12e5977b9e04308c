# SPDX-License-Identifier: Apache-2.0
"""Registered device memory for other devices than GPUs."""

from __future__ import annotations

import ctypes

from . import _client
from ._buffer import DeviceBuffer
from ._library import load


def export_dmabuf(buffer: DeviceBuffer) -> int:
    """A file descriptor of a dma-buf, by which a network adapter reaches the buffer's memory.

    The buffer was made with registered=True or rdma=True; else Unsupported. The caller closes the
    descriptor. Until it and all imports are closed the device lacks the memory, even if the buffer
    is freed: end them first.
    """
    fd = ctypes.c_int()
    _client.check(load().export_dmabuf(None, buffer.pointer, buffer.nbytes, fd))
    return fd.value
