# SPDX-License-Identifier: Apache-2.0
"""numba-cuda's kernels with cache=True, by its cache classes.

Numba's own key is a file's path, time and size; here it is the function's code and all that it
refers to. A kernel is loaded with the machine code that it was saved with, so nothing is linked
again, whatever ran before in the process. What this cannot tell apart (objects that Numba takes as
constants by rules of its own), files to link, and extensions are left to Numba's cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import platform
from typing import Any

import llvmlite
import numba_cuda
import numpy as np
from numba import cuda
from numba.cuda import dispatcher as _dispatcher
from numba.cuda import types as _types
from numba.cuda import utils as _utils
from numba.cuda.core import config as _config
from numba.cuda.core import sigutils as _sigutils
from numba.cuda.cudadrv import libs as _libs
from numba.cuda.serialize import dumps as _dumps

from .. import _errors, _notice
from . import _flight, _functions, _settings, _store

_RELEASED = ("numba", "numba_cuda", "numpy", "cuda", "llvmlite")

# Of Numba's settings that begin with CUDA_: these do not change what is compiled.
_OTHER_SETTINGS = {
    "CUDA_ARRAY_INTERFACE_SYNC", "CUDA_DEALLOCS_COUNT", "CUDA_DEALLOCS_RATIO", "CUDA_DRIVER",
    "CUDA_INCLUDE_PATH", "CUDA_LOG_API_ARGS", "CUDA_LOG_LEVEL", "CUDA_LOG_SIZE",
    "CUDA_LOW_OCCUPANCY_WARNINGS", "CUDA_MEMORY_MANAGER", "CUDA_VERBOSE_JIT_LOG",
    "CUDA_WARN_ON_IMPLICIT_COPY",
}
_SETTINGS = ("OPT", "BOUNDSCHECK", "FORCE_CUDA_CC", "LOOP_VECTORIZE", "SLP_VECTORIZE")

# Options that have something compiled or linked that no digest knows.
_FOREIGN_OPTIONS = ("link", "extensions")


def _special(digest: _functions.Digest, value: Any) -> str | None:
    """A text of a value of Numba or NumPy; None: it is none."""
    if isinstance(value, _dispatcher.CUDADispatcher):
        if value.overloads and getattr(value, "_gpumem_meaning", None) != _meaning(value):
            raise _functions.Unknown("a device function compiled when its globals were others")
        return digest.function(value.py_func) + _options(digest, value.targetoptions)
    if isinstance(value, (_types.Type, np.dtype)):
        return _text(f"type {value!r} {value}")
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        if value.dtype.hasobject:
            raise _functions.Unknown("an array of objects")
        order = "" if isinstance(value, np.generic) else str((value.shape, value.strides))
        return f"array {value.dtype.descr} {order} {value.tobytes().hex()}"
    if type(value).__module__.startswith("numba.") and not isinstance(value, type):
        name = next((name for name, one in vars(cuda).items() if one is value), None)
        return f"numba.cuda.{name}" if name else None
    return None


def _meaning(function: Any) -> str:
    """A digest of a device function as it is now; empty: it cannot be told."""
    try:
        return _functions.Digest(function.py_func, _RELEASED, _special).hexdigest()
    except _functions.Unknown:
        return ""


def _text(text: str) -> str:
    if " at 0x" in text:
        raise _functions.Unknown(text)
    return text


def _options(digest: _functions.Digest, options: dict[str, Any]) -> str:
    if any(options.get(name) for name in _FOREIGN_OPTIONS):
        raise _functions.Unknown("options to link")
    return " ".join(f"{name}={digest.value(value)}" for name, value in sorted(options.items()))


@functools.cache
def _compiler_stamp() -> str:
    """The compiler's files: their sizes and samples of their contents, without loading them.

    A machine without a compiler has a stamp too: Numba says what it lacks when it compiles.
    """
    digest = hashlib.sha256()
    for find in (lambda: _libs.get_cudalib("nvvm"), _libs.get_libdevice):
        try:
            with open(find(), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                digest.update(f"{size}\n".encode())
                for part in range(16):
                    file.seek(size * part // 16)
                    digest.update(file.read(4096))
        except (OSError, TypeError, RuntimeError):
            digest.update(b"none")
    return digest.hexdigest()


def _settings_text() -> str:
    names = [name for name in dir(_config) if name.startswith("CUDA_")
             and name not in _OTHER_SETTINGS]
    return repr([(name, getattr(_config, name, None)) for name in (*sorted(names), *_SETTINGS)])


class Cache(_dispatcher.CUDACache):
    """One function's kernels in the store. Raises Unknown for a function that cannot be told."""

    def __init__(self, store: _store.Store, py_func: Any, options: dict[str, Any]) -> None:
        self._store, self._name, self._py_func = store, repr(py_func), py_func
        self._cache_path = str(store.folder)
        self._launch_config_key: Any = None
        self._launch_config_sensitive_flag: bool | None = None
        self._flight: _flight.Flight | None = None
        self._options = options
        self._digest()
        self.enable()

    def _digest(self) -> str:
        """As the function is now: what a global name means may change before each compilation."""
        lines = bool(self._options.get("debug") or self._options.get("lineinfo"))
        digest = _functions.Digest(self._py_func, _RELEASED, _special, lines)
        return f"{digest.hexdigest()} {_options(digest, self._options)}"

    def _key(self, *parts: object) -> str:
        import numba

        return _store.key("numba", numba_cuda.__version__, numba.__version__, llvmlite.__version__,
                          np.__version__, platform.python_version(), self._digest(), *parts)

    def _key_of(self, sig: Any, target_context: Any) -> str:
        argtypes, _ = _sigutils.normalize_signature(sig)
        return self._key(_text(repr([(repr(one), str(one)) for one in argtypes])),
                         repr(target_context.codegen().magic_tuple()), _compiler_stamp(),
                         _settings_text(), _text(repr(self._launch_config_key)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """A kernel that can be launched; None: it is to be compiled here."""
        self.end()
        if not self._enabled:
            return None
        # Loading makes types and code that belong to CUDA's registries, which may be empty yet.
        with _utils.numba_target_override():
            target_context.refresh()
            try:
                key = self._key_of(sig, target_context)
            except _functions.Unknown:
                return None
            flight = self._flight = _flight.Flight(self._store, key, self._py_func.__qualname__)
            return self._rebuild(flight.entry) if flight.entry is not None else None

    def _rebuild(self, entry: _store.Entry) -> Any:
        try:
            kernel = _dispatcher._Kernel._rebuild(**pickle.loads(entry.files["kernel"]))
        except Exception as error:  # a class that it refers to may be gone
            _notice.say(f"kernel {entry.about.name} cannot be loaded: {error}; it is compiled "
                        "again")
            return None
        library = kernel._codelibrary
        return kernel if library._ensure_cc(None) in library._cubin_cache else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """The kernel was compiled, and bound: its machine code is there."""
        flight = self._flight
        if flight is None:
            return
        cc = data._codelibrary._ensure_cc(None)
        about = _store.About("numba", self._py_func.__qualname__, numba_cuda.__version__,
                             f"sm_{cc[0]}{cc[1]}{cc[2]}")
        flight.save(about, {"kernel": _dumps(data._reduce_states())})

    def end(self) -> None:
        """The compiler is done, or has failed."""
        flight, self._flight = self._flight, None
        if flight is not None:
            flight.end()

    def flush(self) -> None:
        """recompile() asks for it. A key says what is compiled, so nothing has to go."""
        self._launch_config_sensitive_flag = None

    # Kernels that depend on the launch's configuration: a mark of the function, kept as they are.

    def is_launch_config_sensitive(self) -> bool:
        """Whether a kernel of this function was marked so."""
        if self._launch_config_sensitive_flag is None:
            try:
                key = self._key("mark")
            except _functions.Unknown:
                return False
            self._launch_config_sensitive_flag = self._store.load(key) is not None
        return self._launch_config_sensitive_flag

    def mark_launch_config_sensitive(self) -> bool:
        """Marks it; False where that cannot be kept."""
        if self._launch_config_sensitive_flag is not True:
            try:
                key = self._key("mark")
            except _functions.Unknown:
                return False
            about = _store.About("numba", f"{self._py_func.__qualname__} (mark)",
                                 numba_cuda.__version__)
            self._launch_config_sensitive_flag = self._store.save(key, about, {})
        return self._launch_config_sensitive_flag


def _wrap_enable(original: Any) -> Any:
    @functools.wraps(original)
    def enable_caching(self: Any) -> None:
        store = _store.store()
        try:
            if store is None or self.targetoptions.get("device"):
                raise _functions.Unknown
            self._cache = Cache(store, self.py_func, self.targetoptions)
        except _functions.Unknown:
            original(self)

    enable_caching._gpumem_original = original
    return enable_caching


def _wrap_device(original: Any) -> Any:
    @functools.wraps(original)
    def compile_device(self: Any, *arguments: Any, **more: Any) -> Any:
        # Kernels that are compiled later get this code, whatever its globals are by then.
        now = _meaning(self)
        before = getattr(self, "_gpumem_meaning", None)
        if not self.overloads:
            self._gpumem_meaning = now
        elif before != now:
            self._gpumem_meaning = "several"
        return original(self, *arguments, **more)

    return compile_device


def _wrap_compile(original: Any) -> Any:
    @functools.wraps(original)
    def compile(self: Any, sig: Any) -> Any:
        try:
            return original(self, sig)
        finally:
            if isinstance(self._cache, Cache):
                self._cache.end()

    return compile


def install() -> str:
    """Has numba-cuda keep kernels with cache=True in the store. Says what was done."""
    if _settings.is_off():
        return ""
    dispatcher = _dispatcher.CUDADispatcher
    for holder, name in ((_dispatcher, "CUDACache"), (_dispatcher._Kernel, "_rebuild"),
                         (_dispatcher._Kernel, "_reduce_states"), (dispatcher, "enable_caching"),
                         (dispatcher, "compile_device"),
                         (dispatcher, "mark_launch_config_sensitive")):
        if not hasattr(holder, name):
            raise _errors.Unsupported(f"numba-cuda {numba_cuda.__version__} has no {name}")
    if not hasattr(dispatcher.enable_caching, "_gpumem_original"):
        dispatcher.enable_caching = _wrap_enable(dispatcher.enable_caching)
        dispatcher.compile = _wrap_compile(dispatcher.compile)
        dispatcher.compile_device = _wrap_device(dispatcher.compile_device)
    return f"kernels with cache=True are kept in {_settings.folder()}"
