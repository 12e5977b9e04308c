# SPDX-License-Identifier: Apache-2.0
"""What the CUDA driver itself is asked: for devices, and for a context where there is none."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator


NAME = "libcuda.so.1"


def load() -> ctypes.CDLL:
    """The driver that libgpumem-client uses. OSError where there is none."""
    return ctypes.CDLL(os.environ.get("GPUMEM_CUDA_LIBRARY") or NAME)


def load_theirs() -> ctypes.CDLL:
    """The driver that frameworks use. OSError where there is none."""
    return ctypes.CDLL(NAME)


def call(driver: ctypes.CDLL, name: str, *arguments: object) -> None:
    """Calls a function. OSError for a result that is not success."""
    result = getattr(driver, name)(*arguments)
    if result:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(result, ctypes.byref(text))
        raise OSError(f"{name} gives {result} ({(text.value or b'an unknown error').decode()})")


def devices() -> tuple[str, list[str]]:
    """The driver's version, and the names of the devices that this process sees. OSError."""
    n, driver, version = count_devices(), load(), ctypes.c_int()
    call(driver, "cuDriverGetVersion", ctypes.byref(version))
    names = []
    for device in range(n):
        text = ctypes.create_string_buffer(100)
        call(driver, "cuDeviceGetName", text, 100, device)
        names.append(text.value.decode())
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}", names


def count_devices() -> int:
    """How many devices this process sees. OSError."""
    driver, n = load(), ctypes.c_int()
    call(driver, "cuInit", 0)
    call(driver, "cuDeviceGetCount", ctypes.byref(n))
    return n.value


def current_device() -> int:
    """The current context's device; without one 0, as the CUDA runtime has it. OSError."""
    driver, device = load(), ctypes.c_int()
    call(driver, "cuInit", 0)
    return 0 if driver.cuCtxGetDevice(ctypes.byref(device)) else device.value


_CAPTURE_IMPLICIT = 906  # asked of the legacy default stream while a blocking stream captures


def captures() -> Callable[[int | None], bool]:
    """A function that says whether a stream, by its handle, captures a graph now.

    Of the legacy default stream, 0: whether any blocking stream of the current context does."""
    ask, status = load().cuStreamIsCapturing, ctypes.c_int
    ask.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    by_reference = ctypes.byref

    def does_capture(stream: int | None) -> bool:
        got = status()
        return ask(stream, by_reference(got)) == _CAPTURE_IMPLICIT or got.value != 0

    return does_capture


@contextlib.contextmanager
def primary_context(device: int) -> Iterator[None]:
    """A device's primary context is current within it, and stays retained for the memory there."""
    driver, context = load(), ctypes.c_void_p()
    call(driver, "cuInit", 0)
    call(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call(driver, "cuCtxPushCurrent_v2", context)
    try:
        yield
    finally:
        call(driver, "cuCtxPopCurrent_v2", ctypes.byref(context))


@contextlib.contextmanager
def context_of(device: int) -> Iterator[None]:
    """A context of that device is current within it: the thread's own, or else the primary one."""
    driver, current = load(), ctypes.c_int()
    call(driver, "cuInit", 0)
    is_theirs = driver.cuCtxGetDevice(ctypes.byref(current)) == 0 and current.value == device
    with contextlib.nullcontext() if is_theirs else primary_context(device):
        yield
