# SPDX-License-Identifier: Apache-2.0
"""CuPy's kernels: those that NVRTC compiles, RawKernel, RawModule and Jitify included.

CuPy has no interface for this, so only versions that were tested are changed. Its own function
compiles and loads; what it would read from its cache and write to it goes to the store. CuPy's key
holds the paths of folders of headers, and nothing of the user's headers; here the key has the
headers' contents. Jitify is not needed for a kernel that is in the store.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from typing import Any

import cupy
from cupy.cuda import compiler

from .. import _notice
from . import _flight, _includes, _settings, _store

TESTED = ("14.2.0",)

_GLOBAL = re.compile(r"__global__\s+(?:void\s+)?(?:__launch_bounds__\s*\([^)]*\)\s*)?"
                     r"(?:void\s+)?(\w+)")
_threads = threading.local()  # .flight: what this thread compiles


def _backend_class() -> Any:
    base = compiler._KernelCacheBackend

    class Backend(base):  # type: ignore[misc,valid-type]
        """The store within a flight, and CuPy's own cache for what is not kept there."""

        def __init__(self, own: Any) -> None:
            self.own = own

        def load(self, name: str) -> bytes | None:
            """What was compiled; None: nothing was."""
            flight = getattr(_threads, "flight", None)
            if flight is None:
                return self.own.load(name)
            return flight.entry.files["cubin"] if flight.entry is not None else None

        def save(self, name: str, cubin: bytes, source: str) -> None:
            """Keeps it."""
            flight = getattr(_threads, "flight", None)
            if flight is None:
                self.own.save(name, cubin, source)
            else:
                flight.save(_threads.about, {"cubin": cubin})

    return Backend


@functools.cache
def _stamps() -> dict[str, str]:
    from cupy._core import core

    stamps = {core._get_header_dir_path(): f"cupy {cupy.__version__} {core.CUPY_CACHE_KEY}"}
    path = cupy.cuda.get_cuda_path()
    if path is not None:
        folder = os.path.join(path, "include")
        stamps[folder] = f"cuda {_includes.stamp_of_folder(folder)}"
    return stamps


@functools.cache
def _compiler_build(arch: str) -> str:
    """What the compiler says of itself in what it compiles."""
    return compiler._preprocess("", (), arch, "nvrtc")


def _fill_in_build(options: tuple[str, ...], arch: str, jitify: bool, to_ltoir: bool) -> str:
    """As CuPy asks the compiler once for each set of options. What it says depends on none."""
    build = _compiler_build(arch)
    options += ("-ftz=true",) + (("-dlto",) if to_ltoir else ())
    if jitify and "-DCUPY_USE_JITIFY" not in options:
        options += ("-DCUPY_USE_JITIFY",)
    env = (arch, options, compiler._get_nvrtc_version(), "nvrtc")
    env += compiler._get_arch_for_options_for_nvrtc(arch)
    compiler._empty_file_preprocess_cache.setdefault(env, build)
    return build


def _headers(source: str, options: tuple[str, ...]) -> tuple[list[str], str]:
    """(options that name no folder, a digest of the headers). Raises Unknown."""
    folders, first, others = _includes.split_options(options)
    text = source + "".join(f'\n#include "{name}"' for name in first)
    if _includes.includes_none(text):
        return others, ""
    reader = _includes.Reader(folders, _stamps())
    reader.read(text, os.getcwd())
    return others, f"{reader.digest()} {sorted(_stamps().values())}"


def _key(
    source: str, options: tuple[str, ...], arch: str, extra_source: str | None,
    name_expressions: Any, jitify: bool, to_ltoir: bool,
) -> str:
    others, headers = _headers(source, options)
    debug = compiler._get_bool_env_variable("CUPY_CUDA_COMPILE_WITH_DEBUG", False)
    return _store.key("cupy", cupy.__version__, compiler._get_cupy_cache_key(),
                      compiler._get_nvrtc_version(),
                      _fill_in_build(options, arch, jitify, to_ltoir), arch,
                      compiler._get_arch_for_options_for_nvrtc(arch), others, headers, source,
                      extra_source, sorted(name_expressions or ()), bool(jitify), bool(to_ltoir),
                      debug, compiler._use_pch)


def _name(source: str, name_expressions: Any) -> str:
    if name_expressions:
        return str(sorted(name_expressions)[0])
    found = _GLOBAL.search(source)
    return found[1] if found else "a kernel"


def _wrap(original: Any) -> Any:
    @functools.wraps(original)
    def compile_with_cache(
        source: str, options: tuple[str, ...], arch: str | None, extra_source: str | None = None,
        backend: str = "nvrtc", enable_cooperative_groups: bool = False,
        name_expressions: Any = None, log_stream: Any = None, cache_in_memory: bool = False,
        jitify: bool = False, to_ltoir: bool = False,
    ) -> Any:
        def compile_it() -> Any:
            return original(source, options, arch, extra_source, backend, enable_cooperative_groups,
                            name_expressions, log_stream, cache_in_memory, jitify, to_ltoir)

        store = _store.store()
        if store is None or backend != "nvrtc" or cache_in_memory:
            return compile_it()
        arch = compiler._get_arch() if arch is None else arch
        try:
            key = _key(source, options, arch, extra_source, name_expressions, jitify, to_ltoir)
        except _includes.Unknown:
            return compile_it()
        with _flight.Flight(store, key, _name(source, name_expressions)) as flight:
            _threads.flight = flight
            _threads.about = _store.About("cupy", flight.name, cupy.__version__, f"sm_{arch}")
            try:
                return compile_it()
            finally:
                _threads.flight = None

    compile_with_cache._gpumem_original = original
    return compile_with_cache


def install() -> str:
    """Has CuPy keep its kernels in the store. Says what was done."""
    if _settings.is_off():
        return ""
    version = getattr(cupy, "__version__", "of an unknown version")
    if version not in TESTED:
        _notice.say(f"CuPy {version} keeps its own kernel cache: tested is {', '.join(TESTED)}")
        return ""
    if not hasattr(compiler._compile_with_cache_cuda, "_gpumem_original"):
        own = compiler._kernel_cache_backend
        compiler._set_kernel_cache_backend(_backend_class()(own))
        compiler._compile_with_cache_cuda = _wrap(compiler._compile_with_cache_cuda)
    return f"kernels are kept in {_settings.folder()}"
