# SPDX-License-Identifier: Apache-2.0
"""libgpumem-client through ctypes: which file it is, its version, and what its functions take.

Functions that may wait are called without the GIL (ctypes.CDLL): for memory, for the daemon, for
GPU work, or for a lock whose owner does. A host function of a stream may need the GIL before that
work goes on. The others keep it (ctypes.PyDLL), which costs less.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys

from . import _errors, _structs
from ._version import __version__

TYPE_CHECKING = False  # typing costs more than the rest of this package
if TYPE_CHECKING:
    from typing import Any

SONAME = "libgpumem-client.so.0"

# How a type of C is written below; * in front: a pointer to it.
_TYPES: dict[str, Any] = {
    "none": None, "void*": ctypes.c_void_p, "char*": ctypes.c_char_p, "int": ctypes.c_int,
    "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "size": ctypes.c_size_t,
    "double": ctypes.c_double,
    "object": ctypes.py_object, "Request": _structs.Request, "Info": _structs.Info,
    "Refusal": _structs.Refusal, "ShareOptions": _structs.ShareOptions, "Stats": _structs.Stats,
    "TagStats": _structs.TagStats, "Token": _structs.Token,
}  # fmt: skip

# name without "gpumem_": (may it wait, what it gives and takes), read at the first call.
_FUNCTIONS = {
    "alloc": (True, "int void* *Request *void*"),
    "adapters_failures": (True, "u64"),
    "adapters_set_wait_ms": (True, "none u32"),
    "after_capture": (True, "int void*"),
    "attach": (True, "int void* *Token *void* *u64"),
    "before_capture": (True, "int void*"),
    "connect_refusal": (False, "int *Refusal"),
    "default_client": (True, "int *void*"),
    "describe": (True, "int void* void* *Info"),
    "device_alloc": (True, "int size int void* void*"),
    "detach": (True, "int void* void* void*"),
    "detach_sync": (True, "int void* void*"),
    "export_dmabuf": (True, "int void* void* u64 *int"),
    "flush": (True, "int void* *u64"),
    "free": (True, "int void* void* void*"),
    "free_all_blocks": (True, "int void* int *u64"),
    "free_in_order": (True, "int void* void*"),
    "free_later": (True, "int void* void*"),
    "free_sync": (True, "int void* void*"),
    "get_figures": (True, "int void* int i32 *char* *u64 size *size"),
    "get_stats": (True, "int void* int i32 *Stats"),
    "get_tag_stats": (True, "int void* char* *TagStats"),
    "graph_pool_begin": (True, "int void* u64 void* *u64"),
    "graph_pool_end": (True, "int void* u64 void*"),
    "last_refusal": (False, "int void* *Refusal"),
    "monitor_wait": (True, "int void* int i32 u32 *Stats"),
    "monitor_wake": (True, "none void*"),
    "pressure": (True, "u64 void*"),
    "python_capsule": (False, "object object void* int"),
    "python_function": (False, "object char*"),
    "record_use": (True, "int void* void* void*"),
    "reserve": (True, "int void* i32 u64 u32"),
    "reset_peaks": (True, "int void* int i32"),
    "set_cache_size": (True, "int void* u64"),
    "set_limit": (True, "int void* int i32 u64"),
    "set_memory_fraction": (True, "int void* i32 double"),
    "set_program": (True, "none char*"),
    "set_tag": (True, "int void* char*"),
    "share": (True, "int void* void* *ShareOptions *Token"),
    "stream_register": (True, "int void* void*"),
    "stream_unregister": (True, "int void* void*"),
    "stream_wait": (True, "int void* void* void*"),
    "strerror": (False, "char* int"),
    "token_format": (False, "char* *Token char*"),
    "token_parse": (False, "int char* *Token"),
    "trim": (True, "int void* u64 *u64"),
    "trim_idle": (True, "int void* u32 *u64"),
    "unshare": (True, "int void* *Token"),
    "version": (False, "char*"),
}


def _type(word: str) -> Any:
    return ctypes.POINTER(_TYPES[word[1:]]) if word[0] == "*" else _TYPES[word]


class Library:
    """The loaded library: `library.alloc` is gpumem_alloc, found when it is first asked for."""

    def __init__(self, path: str, mode: int = ctypes.DEFAULT_MODE) -> None:
        self.path = path
        self._waiting = ctypes.CDLL(path, mode=mode)
        self._quick = ctypes.PyDLL(path)

    def __getattr__(self, name: str) -> Any:
        if name not in _FUNCTIONS:
            raise AttributeError(name)
        may_wait, types = _FUNCTIONS[name]
        try:
            function = getattr(self._waiting if may_wait else self._quick, "gpumem_" + name)
        except AttributeError:
            raise _errors.Unsupported(
                f"{self.path} has no gpumem_{name}: it was built before this package, gpumem "
                f"{__version__}. Build both from one tree, or unset GPUMEM_LIBRARY."
            ) from None
        function.restype, *function.argtypes = map(_type, types.split())
        setattr(self, name, function)
        return function

    def address(self, name: str) -> int:
        """The address of a C function, for frameworks that take pointers as integers."""
        try:
            return ctypes.cast(getattr(self._waiting, name), ctypes.c_void_p).value or 0
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
    bundled = os.path.join(os.path.dirname(__file__), "lib", SONAME)
    # Two copies would be two clients, and each would refuse the other's pointers.
    found = [(SONAME, os.RTLD_NOLOAD | os.RTLD_NOW)]
    if os.path.exists(bundled):
        found.append((bundled, ctypes.DEFAULT_MODE))
    return found + [(SONAME, ctypes.DEFAULT_MODE)]


def _open() -> Library:
    problems = []
    for name, mode in candidates():
        try:
            return Library(name, mode)
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


def _name_program(library: Library) -> None:
    """The daemon shows the script's name, not the interpreter's."""
    script = (getattr(sys, "argv", None) or [""])[0]
    folder, name = os.path.split(script)
    if name == "__main__.py":  # of a package that is run by -m
        name = os.path.basename(folder)
    if name not in ("", "-c", "-m"):
        library.set_program(os.fsencode(name))


_lock = _thread.allocate_lock()
_loaded: Library | None = None


def _after_fork_in_child() -> None:
    global _lock  # the thread that had it is the parent's
    _lock = _thread.allocate_lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def load() -> Library:
    """The process's library; loaded at the first call."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                library = _open()
                check_version(library)
                _name_program(library)
                _loaded = library
    return _loaded
