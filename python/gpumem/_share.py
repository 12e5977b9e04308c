# SPDX-License-Identifier: Apache-2.0
"""Memory that several processes use, by tokens."""

from __future__ import annotations

import ctypes
import errno
import math
from collections.abc import Callable
from typing import Any

from . import _client, _driver, _dtypes, _errors, _streams, _structs
from ._buffer import Buffer, DeviceBuffer, PinnedBuffer, Shape, _end_attached, shape_of
from ._library import load

KEEP_MAX = 60.0


def _parse(token: str) -> _structs.Token:
    made = _structs.Token()
    if load().token_parse(_client.text("the token", token), made):
        raise ValueError("a token is 32 hexadecimal digits")
    return made


def share(buffer: Buffer, *, keep: float = 0.0, uid: int | None = None) -> str:
    """A token by which other processes of the user attach() the memory: a secret, 32 digits.

    keep: seconds, 60 at most, for which the token is good after the owner's end,
    so that the owner may end before another has attached.
    uid: another user whose processes may attach too.
    The buffer was made with shareable=True; else NotOurs.
    """
    return share_pointer(buffer.pointer, keep, uid)


def share_pointer(pointer: int, keep: float = 0.0, uid: int | None = None) -> str:
    """share() for an allocation's address."""
    if not hasattr(keep, "__float__"):
        raise TypeError(f"keep is {keep!r}; a number of seconds is needed")
    if not 0 <= keep <= KEEP_MAX:
        raise ValueError(f"keep is {keep} seconds; 0 to {KEEP_MAX:.0f} are possible")
    options = _structs.sized(_structs.ShareOptions, keep_ms=math.ceil(keep * 1000))
    if uid is not None:
        options.flags = _structs.SHARE_GRANT
        options.uid = _client.within("uid", uid, 2**32 - 2)
    token = _structs.Token()
    result = load().share(None, pointer, options, token)
    if keep and result in (-errno.E2BIG, _errors.UNSUPPORTED):
        raise _errors.Unsupported(
            f"share(keep={keep}): libgpumem-client {_client.version()}, or its gpumemd, does not "
            "keep shared memory after its owner's end. Keep the buffer until the other process has attached, "
            "or install a newer version.", result)
    _client.check(result)
    text = ctypes.create_string_buffer(33)
    return load().token_format(token, text).decode()


def unshare(token: str) -> None:
    """No process attaches by this token any more; those that have attached keep the memory."""
    _client.check(load().unshare(None, _parse(token)))


def _current_device() -> int:
    """0 where there is no driver: then nothing asks for a context."""
    try:
        return _driver.current_device()
    except OSError:
        return 0


def _end_of_device(buffer: Buffer) -> int:
    # A default stream in which it was used is its device's, whatever context the thread has.
    with _driver.context_of(buffer.place):
        return _end_attached(buffer)


def _end_of_pinned(device: int) -> Callable[[Buffer], int]:
    """Detaches a buffer. A thread without a context uses the primary one of `device`, as for the attach."""

    def end(buffer: Buffer) -> int:
        result = _end_attached(buffer)
        if result == _errors.NO_CONTEXT:
            with _driver.primary_context(device):
                result = _end_attached(buffer)
        return result

    return end


def _attach(parsed: _structs.Token, device: int) -> tuple[int, int]:
    """(address, bytes). A thread without a context uses the primary one of `device`."""
    pointer, n_bytes = ctypes.c_void_p(), ctypes.c_uint64()
    result = load().attach(None, parsed, pointer, n_bytes)
    if result == _errors.NO_CONTEXT:
        with _driver.primary_context(device):
            _client.check(load().attach(None, parsed, pointer, n_bytes))
    else:
        _client.check(result)
    return pointer.value or 0, n_bytes.value


def attach(
    token: str, shape: Shape | None = None, dtype: Any = "uint8", *, device: int | str = 0,
    stream: Any = None,
) -> Buffer:  # fmt: skip
    """The memory that another process shares: a DeviceBuffer or a PinnedBuffer.

    shape, dtype: as both processes agree; None: one dimension, as long as the memory is.
    device: of device memory, which one it is on; needed where the thread has no CUDA context.
    stream: in whose order this process uses it last. The end of the buffer waits for that stream;
    for all work of the context, if another library has used the buffer.
    """
    # What may be wrong comes first: without a buffer the memory cannot be detached.
    made_dtype, number = _dtypes.parse(dtype), _streams.handle(stream)
    made_shape = None if shape is None else shape_of(shape)
    pointer, n_bytes = _attach(_parse(token), _client.ordinal(device))
    info = _client.describe(pointer)
    is_device = info.kind == "device"
    made: type[Buffer] = DeviceBuffer if is_device else PinnedBuffer
    end = _end_of_device if is_device else _end_of_pinned(_current_device())
    buffer = made(pointer, (n_bytes // made_dtype.itemsize,), made_dtype, place=info.place,
                  stream=number, end=end)
    return buffer if made_shape is None else _shaped(buffer, made_shape)


def _shaped(buffer: Buffer, shape: tuple[int, ...]) -> Buffer:
    n_bytes = math.prod(shape) * buffer.dtype.itemsize
    if n_bytes > buffer.nbytes:
        raise ValueError(f"{shape} {buffer.dtype} is {n_bytes} bytes; {buffer.nbytes} are shared")
    buffer.shape, buffer.nbytes = shape, n_bytes
    return buffer
