# SPDX-License-Identifier: Apache-2.0
"""libgpumem-client through ctypes: which file it is, its version, and what its functions take.

Functions that may wait are called without the GIL (ctypes.CDLL): for memory, for the daemon, for
GPU work, or for a lock whose owner does. A host function of a stream may need the GIL before that
work goes on. The others keep it (ctypes.PyDLL), which costs less.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from ctypes import py_object as c_object
from typing import Any

from . import _errors, _structs
from ._version import __version__

SONAME = "libgpumem-client.so.0"

# name without "gpumem_": (may it wait, what it gives, what it takes)
_FUNCTIONS: dict[str, tuple[bool, Any, list[Any]]] = {
    "alloc": (True, c_int, [c_void_p, POINTER(_structs.Request), POINTER(c_void_p)]),
    "adapters_failures": (True, c_uint64, []),
    "adapters_set_wait_ms": (True, None, [c_uint32]),
    "attach": (True, c_int, [c_void_p, POINTER(_structs.Token), POINTER(c_void_p),
                             POINTER(c_uint64)]),
    "connect_refusal": (False, c_int, [POINTER(_structs.Refusal)]),
    "default_client": (True, c_int, [POINTER(c_void_p)]),
    "describe": (True, c_int, [c_void_p, c_void_p, POINTER(_structs.Info)]),
    "detach": (True, c_int, [c_void_p, c_void_p, c_void_p]),
    "flush": (True, c_int, [c_void_p, POINTER(c_uint64)]),
    "free_all_blocks": (True, c_int, [c_void_p, c_int, POINTER(c_uint64)]),
    "free_in_order": (True, c_int, [c_void_p, c_void_p]),
    "free_later": (True, c_int, [c_void_p, c_void_p]),
    "free_sync": (True, c_int, [c_void_p, c_void_p]),
    "get_figures": (True, c_int, [c_void_p, c_int, c_int32, POINTER(c_char_p), POINTER(c_uint64),
                                   c_size_t, POINTER(c_size_t)]),
    "get_stats": (True, c_int, [c_void_p, c_int, c_int32, POINTER(_structs.Stats)]),
    "get_tag_stats": (True, c_int, [c_void_p, c_char_p, POINTER(_structs.TagStats)]),
    "graph_pool_begin": (True, c_int, [c_void_p, c_uint64, c_void_p, POINTER(c_uint64)]),
    "graph_pool_end": (True, c_int, [c_void_p, c_uint64, c_void_p]),
    "last_refusal": (False, c_int, [c_void_p, POINTER(_structs.Refusal)]),
    "pressure": (True, c_uint64, [c_void_p]),
    "python_capsule": (False, c_object, [c_object, c_void_p, c_int]),
    "record_use": (True, c_int, [c_void_p, c_void_p, c_void_p]),
    "reserve": (True, c_int, [c_void_p, c_int32, c_uint64, c_uint32]),
    "reset_peaks": (True, c_int, [c_void_p, c_int, c_int32]),
    "set_limit": (True, c_int, [c_void_p, c_int, c_int32, c_uint64]),
    "set_tag": (True, c_int, [c_void_p, c_char_p]),
    "share": (True, c_int, [c_void_p, c_void_p, POINTER(_structs.ShareOptions),
                            POINTER(_structs.Token)]),
    "stream_register": (True, c_int, [c_void_p, c_void_p]),
    "stream_unregister": (True, c_int, [c_void_p, c_void_p]),
    "stream_wait": (True, c_int, [c_void_p, c_void_p, c_void_p]),
    "strerror": (False, c_char_p, [c_int]),
    "token_format": (False, c_char_p, [POINTER(_structs.Token), c_char_p]),
    "token_parse": (False, c_int, [c_char_p, POINTER(_structs.Token)]),
    "unshare": (True, c_int, [c_void_p, POINTER(_structs.Token)]),
    "version": (False, c_char_p, []),
}  # fmt: skip


class Library:
    """The loaded library: `library.alloc` is gpumem_alloc, found when it is first asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._waiting = ctypes.CDLL(path)
        self._quick = ctypes.PyDLL(path)

    def __getattr__(self, name: str) -> Any:
        if name not in _FUNCTIONS:
            raise AttributeError(name)
        may_wait, result, arguments = _FUNCTIONS[name]
        try:
            function = getattr(self._waiting if may_wait else self._quick, "gpumem_" + name)
        except AttributeError:
            raise _errors.Unsupported(
                f"{self.path} has no gpumem_{name}: it was built before this package, gpumem "
                f"{__version__}. Build both from one tree, or unset GPUMEM_LIBRARY."
            ) from None
        function.restype, function.argtypes = result, arguments
        setattr(self, name, function)
        return function

    def address(self, name: str) -> int:
        """The address of a C function, for frameworks that take pointers as integers."""
        try:
            return ctypes.cast(getattr(self._waiting, name), c_void_p).value or 0
        except AttributeError:
            raise _errors.Unsupported(f"{self.path} has no {name}") from None

    def has(self, name: str) -> bool:
        """Whether it exports a function of this name."""
        return hasattr(self._waiting, name)


def candidates() -> list[tuple[str, int]]:
    """Names for dlopen, with its mode, in the order in which they are tried."""
    named = os.environ.get("GPUMEM_LIBRARY")
    if named:
        return [(named, ctypes.DEFAULT_MODE)]
    bundled = pathlib.Path(__file__).parent / "lib" / SONAME
    # Two copies would be two clients, and each would refuse the other's pointers.
    found = [(SONAME, os.RTLD_NOLOAD | os.RTLD_NOW)]
    if bundled.exists():
        found.append((str(bundled), ctypes.DEFAULT_MODE))
    return found + [(SONAME, ctypes.DEFAULT_MODE)]


def _open() -> Library:
    problems = []
    for name, mode in candidates():
        try:
            ctypes.CDLL(name, mode=mode)
            return Library(name)
        except OSError as error:
            problems.append(str(error))
    raise _errors.Unsupported(
        f"{SONAME} cannot be loaded: {problems[-1]}. Install the package libgpumem-client0, or a "
        "wheel of gpumem that holds it; GPUMEM_LIBRARY names another file."
    )


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def check_version(library: Library) -> None:
    """Raises Unsupported for a library that is older than this package, or of another major."""
    try:
        said = library.version().decode()
    except _errors.Unsupported:
        said = "0.0"
    theirs, ours = _numbers(said), _numbers(__version__)
    if theirs < ours or theirs[0] != ours[0]:
        raise _errors.Unsupported(
            f"{library.path} is version {said}; gpumem {__version__} needs {ours[0]}.{ours[1]} or "
            f"newer, below {ours[0] + 1}. Install matching versions, or unset GPUMEM_LIBRARY."
        )


_lock = threading.Lock()
_loaded: Library | None = None


def load() -> Library:
    """The process's library; loaded at the first call."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                library = _open()
                check_version(library)
                _loaded = library
    return _loaded
