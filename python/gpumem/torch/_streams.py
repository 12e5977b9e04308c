# SPDX-License-Identifier: Apache-2.0
"""Streams that the program makes are registered, each once, and with them their device's default
stream: programs of torch free memory while another of their streams still reads it."""

from __future__ import annotations

from typing import Any

import torch

from .. import _client, _errors, _notice
from . import _patches

# (device, handle). A set's operations are atomic; one that is registered twice does no harm.
_registered: set[tuple[int, int]] = set()


def register(device: int, stream: int) -> None:
    """A stream of a device by its handle, 0 for the default stream. Once each."""
    key = device, stream
    if key in _registered:
        return
    _registered.add(key)
    try:
        with torch.cuda.device(device):  # whose default stream 0 is
            _client.stream_register(stream)
    except _errors.Error as error:
        if error.result == _errors.CAPTURES:
            _registered.discard(key)  # it is seen again after the capture
        else:
            _notice.say(f"a stream of device {device} is not registered: {error}")


def _is_external(stream: Any) -> bool:
    """torch's own streams have odd numbers, and are never destroyed; of others the number is the handle."""
    number = getattr(stream, "stream_id", 0)
    return number != 0 and number & 1 == 0


def _register_made(stream: Any) -> None:
    if _is_external(stream):  # its owner may destroy it: gpumem.stream_register is the owner's
        return
    device, handle = stream.device_index, stream.cuda_stream
    if (device, handle) not in _registered:
        register(device, 0)
        register(device, handle)


def install() -> None:
    """From now on. ExternalStream and current_stream() make theirs by the same function."""
    stream_class = torch.cuda.Stream
    make = stream_class.__new__

    def __new__(cls: Any, *arguments: Any, **options: Any) -> Any:
        made = make(cls, *arguments, **options)
        _register_made(made)
        return made

    _patches.put(stream_class, "__new__", staticmethod(__new__))
