# SPDX-License-Identifier: Apache-2.0
"""DLPack through ctypes: capsules for others, and what capsules of others hold.

Consumers that know version 1 get "dltensor_versioned"; NumPy takes the other kind as read-only.
"""

from __future__ import annotations

import ctypes
from typing import Any

from . import _dtypes
from ._library import load

_NAME, _NAME_VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {_NAME: b"used_dltensor", _NAME_VERSIONED: b"used_dltensor_versioned"}
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    """DLTensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensor"""

    _fields_ = [
        ("dl_tensor", _Tensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned"""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _Tensor),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)


def _contiguous_strides(shape: tuple[int, ...]) -> list[int]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * max(shape[i], 1)
    return strides


def capsule(owner: Any, device: tuple[int, int], max_version: tuple[int, int] | None) -> Any:
    """A capsule over `owner` (pointer, shape, strides, dtype), which lives as long as its consumer.

    owner.strides: in elements, or None where the elements follow one another. C has the capsule's
    end: it comes while exceptions are under way, where Python's functions cannot be called."""
    n = len(owner.shape)
    dimensions = ctypes.c_int64 * n
    pointer = None if 0 in owner.shape else owner.pointer  # NULL for no elements, as DLPack says
    tensor = _Tensor(
        pointer or None, device[0], device[1], n, owner.dtype.code, owner.dtype.bits, 1,
        dimensions(*owner.shape), dimensions(*(owner.strides or _contiguous_strides(owner.shape))),
        0,
    )  # fmt: skip
    versioned = max_version is not None and tuple(max_version) >= (1, 0)
    return load().python_capsule(owner, ctypes.byref(tensor), versioned)


class Taken:
    """What was in a capsule of another: it is let go of when this object is."""

    __slots__ = ("_address", "_deleter", "pointer", "device", "shape", "strides", "dtype")

    def __init__(self, made: Any) -> None:
        self._deleter = None
        versioned = bool(_is_valid(id(made), _NAME_VERSIONED))
        name = _NAME_VERSIONED if versioned else _NAME
        if not _is_valid(id(made), name):
            raise BufferError("not a DLPack capsule, or one that was consumed before")
        address = _get_pointer(id(made), name)
        made_of: Any = _ManagedVersioned if versioned else _Managed
        managed = made_of.from_address(address)
        if versioned:
            self._check_versioned(managed)
        self._read(managed.dl_tensor)
        _set_name(id(made), _USED[name])
        self._address = address
        self._deleter = _DELETER(managed.deleter) if managed.deleter else None

    @staticmethod
    def _check_versioned(managed: _ManagedVersioned) -> None:
        if managed.major != 1:
            raise BufferError(f"DLPack {managed.major}.{managed.minor} is not known here: 1.x is")
        if managed.flags & _READ_ONLY:
            raise BufferError("the memory is read-only, and a Buffer may be written: copy it first")

    def _read(self, tensor: _Tensor) -> None:
        n = tensor.ndim
        self.dtype = _dtypes.of_code(tensor.code, tensor.bits, tensor.lanes)
        self.device = (tensor.device_type, tensor.device_id)
        self.shape = tuple(tensor.shape[:n])
        is_empty = 0 in self.shape  # then neither the address nor the strides mean anything
        self.pointer = 0 if is_empty else (tensor.data or 0) + tensor.byte_offset
        strides = tensor.strides[:n] if tensor.strides else None
        is_contiguous = is_empty or strides is None or all(
            length <= 1 or stride == wanted
            for length, stride, wanted in zip(
                self.shape, strides, _contiguous_strides(self.shape), strict=True
            )
        )
        self.strides = None if is_contiguous or strides is None else tuple(strides)

    def __del__(self) -> None:
        if self._deleter is not None:
            self._deleter(self._address)


def take(exporter: Any, stream: int | None) -> Taken:
    """The memory of `exporter`, ready for work in `stream` (as __dlpack__ takes it)."""
    ordered = {} if stream is None else {"stream": stream}
    try:
        made = exporter.__dlpack__(max_version=(1, 0), **ordered)
    except TypeError:  # an exporter from before version 1
        made = exporter.__dlpack__(**ordered)
    return Taken(made)
