# SPDX-License-Identifier: Apache-2.0
"""Triton's kernels, by its interface for cache managers.

    TRITON_CACHE_MANAGER=gpumem.kernels.triton:Manager python script.py

The key is Triton's own: its sources and its compiler's binary, the kernel's source, options,
ptxas's version and the compute capability. What is loaded comes from the store, whose checksums were
checked; Triton reads it as files of its own folder (TRITON_CACHE_DIR), which are written again
where they differ. What Triton keeps beside kernels (launchers, measurements) stays in that folder
alone.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import triton
from triton.runtime import cache

from .. import _errors
from . import _flight, _settings, _store

_threads = threading.local()  # .flight: what this thread compiles, as far as is known


def _begin(key: str, name: str) -> _flight.Flight | None:
    """Triton does not say when a compiler fails: the thread's next kernel ends that flight."""
    _end()
    store = _store.store()
    if store is None:
        return None
    flight = _threads.flight = _flight.Flight(store, key, name)
    return flight


def _end() -> None:
    flight = getattr(_threads, "flight", None)
    if flight is not None:
        _threads.flight = None
        flight.end()


def _target(files: dict[str, bytes], metadata: str) -> str:
    try:
        target = json.loads(files[metadata])["target"]
        return f"sm_{target['arch']}" if target["backend"] == "cuda" else str(target["arch"])
    except (ValueError, KeyError, TypeError):
        return ""


class Manager(cache.FileCacheManager):
    """Triton makes one a kernel; compile() asks for a group of files first, and puts it last."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override=override, dump=dump)
        self._is_plain = override or dump  # folders for people
        self._flight: _flight.Flight | None = None
        self._files: dict[str, bytes] = {}

    def __del__(self) -> None:
        if self._flight is not None and self._flight is getattr(_threads, "flight", None):
            _end()

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths of a kernel's files; None: it is to be compiled here."""
        if self._is_plain or not filename.endswith(".json"):
            return super().get_group(filename)
        flight = _begin(_store.key("triton", self.key, filename), filename.removesuffix(".json"))
        if flight is None:
            return super().get_group(filename)
        if flight.entry is None:
            self._flight = flight
            return None
        _end()
        group = {name: self._materialize(name, data) for name, data in flight.entry.files.items()}
        if not self.has_file(f"__grp__{filename}"):
            super().put_group(filename, group)
        return group

    def _materialize(self, name: str, data: bytes) -> str:
        path = self._make_path(name)
        try:
            with open(path, "rb") as file:
                if file.read() == data:
                    return path
        except OSError:
            pass
        return super().put(data, name)

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Keeps one file in Triton's folder."""
        if self._flight is not None:
            self._files[filename] = data if isinstance(data, bytes) else str(data).encode()
        return super().put(data, filename, binary=binary)

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """The kernel is compiled: the store has it from now on."""
        flight, self._flight = self._flight, None
        if flight is not None:
            files = {name: self._files[name] for name in group if name in self._files}
            if len(files) == len(group):
                about = _store.About("triton", filename.removesuffix(".json"), triton.__version__,
                                     _target(files, filename))
                flight.save(about, files)
            flight.end()
        self._files = {}
        return super().put_group(filename, group)


def install() -> str:
    """Has Triton use Manager. Says what was done."""
    if _settings.is_off():
        return ""
    named = os.environ.get("TRITON_CACHE_MANAGER")
    if named not in (None, "", f"{__name__}:Manager"):
        raise _errors.Unsupported(f"TRITON_CACHE_MANAGER={named} chooses another manager")
    if hasattr(triton, "knobs"):
        triton.knobs.cache.manager_class = Manager
    else:  # an older one reads the environment each time
        os.environ["TRITON_CACHE_MANAGER"] = f"{__name__}:Manager"
    return f"kernels are kept in {_settings.folder()}"
