# SPDX-License-Identifier: Apache-2.0
"""Frameworks that a program imports take their memory from gpumemd, and keep their kernels in the
store, as soon as they are there.

Used by `python -m gpumem run`, and loaded by file in its descendants (_site/sitecustomize.py).
Their interpreter may lack the package, so this imports nothing of it before a framework is there.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False  # every Python that starts would pay for typing, and for what is imported below
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

EXIT_NOT_SERVED = 125

# module: the adapters', which are modules of this package
MEMORY = {"torch": ["torch"], "cupy": ["cupy"], "numba.cuda": ["numba"], "rmm": ["rmm"],
          "cuda.core": ["cuda_core"], "warp": ["warp"]}
KERNELS = {"triton": ["kernels.triton"], "cupy": ["kernels.cupy"], "numba.cuda": ["kernels.numba"]}

# Set for descendants of a program whose frameworks keep their own allocators.
NO_MEMORY = "GPUMEM_RUN_NO_MEMORY"


def _package() -> Any:
    """The package gpumem that this file is of, where the interpreter finds none."""
    import importlib.util

    try:
        return importlib.import_module("gpumem")
    except ModuleNotFoundError:
        pass
    folder = os.path.dirname(__file__)
    spec = importlib.util.spec_from_file_location(
        "gpumem", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpumem"] = module
    spec.loader.exec_module(module)
    return module


def end_not_served() -> None:
    """The program ends with EXIT_NOT_SERVED. In a thread SystemExit would end the thread only."""
    import threading

    if threading.current_thread() is threading.main_thread():
        raise SystemExit(EXIT_NOT_SERVED)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_NOT_SERVED)


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


_waiting: set[str] = set()  # adapters that are installed when their import has ended


def _is_under_way(name: str) -> bool:
    """Whether an adapter is being imported, by this thread or another: it imports its framework first."""
    adapter = sys.modules.get(f"gpumem.{name}")
    return adapter is not None and not hasattr(adapter, "install")


def _say_not_served(name: str, error: Exception) -> None:
    """Its line; the program ends where it must be served."""
    framework = name.rpartition(".")[2]
    if name.startswith("kernels."):
        print(f"gpumem: {framework} keeps its own kernel cache: {error}", file=sys.stderr)
        return
    print(f"gpumem: {framework} keeps its own allocator: {error}", file=sys.stderr)
    if _is_set("GPUMEM_REQUIRED"):
        end_not_served()


def _say_served(name: str, done: str) -> None:
    if _is_set("GPUMEM_VERBOSE") and done:
        print(f"gpumem: {name.rpartition('.')[2]}: {done}", file=sys.stderr)


def _install(name: str, adapter: Any) -> None:
    """Now, or where an adapter can choose it for each device, at the device's first use."""
    if hasattr(adapter, "install_where_served"):
        adapter.install_where_served(
            lambda done: _say_served(name, done), lambda error: _say_not_served(name, error)
        )
    else:
        _say_served(name, adapter.install())


def install(name: str) -> None:
    """Installs an adapter. Where it fails the framework keeps what it has, with one line."""
    import importlib

    if _is_under_way(name):
        _waiting.add(name)
        if _is_under_way(name):
            return
        _waiting.discard(name)  # it has ended meanwhile
    try:
        _package()
        _install(name, importlib.import_module(f"gpumem.{name}"))
    except Exception as error:
        _say_not_served(name, error)


def _fail_if_waiting(module: str, error: Exception) -> None:
    """The import of a module has failed: if it is an adapter whose framework is there, that is not served."""
    name = module.removeprefix("gpumem.")
    if name != module and name in _waiting:
        _waiting.discard(name)
        _say_not_served(name, error)


class Finder:
    """Finds what the others find, and acts when one of some modules has been executed."""

    def __init__(self, actions: dict[str, Callable[[Any], None]]) -> None:
        """Of modules, by their names; called with the module."""
        self._actions = actions
        self._under_way: dict[int, str] = {}  # by thread

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The spec of such a module; None for all others."""
        thread = _thread.get_ident()
        action = self._actions.get(name)
        if action is None or self._under_way.get(thread) == name:
            return None
        import importlib.util

        before = self._under_way.get(thread)
        self._under_way[thread] = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            if before is None:
                del self._under_way[thread]
            else:
                self._under_way[thread] = before
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            try:
                execute(module)
            except Exception as error:
                _fail_if_waiting(name, error)
                raise
            action(module)

        spec.loader.exec_module = exec_module
        return spec


_adapters: dict[str, list[str]] = {}  # by module; of this package


def _installer(name: str) -> Callable[[Any], None]:
    def act(module: Any) -> None:
        for adapter in _adapters[name]:
            install(adapter)

    return act


def _install_if_waiting(name: str) -> Callable[[Any], None]:
    def act(module: Any) -> None:
        if name in _waiting:
            _waiting.discard(name)
            install(name)

    return act


_actions: dict[str, Callable[[Any], None]] = {}
_frameworks = Finder(_actions)


def watch(adapters: dict[str, list[str]]) -> None:
    """Frameworks are served from now on in this process, beside those that are already."""
    for module, names in adapters.items():
        known = _adapters.setdefault(module, [])
        known += [name for name in names if name not in known]
        _actions[module] = _installer(module)
        for name in names:
            _actions[f"gpumem.{name}"] = _install_if_waiting(name)
    if _frameworks not in sys.meta_path:
        sys.meta_path.insert(0, _frameworks)


def watch_chosen() -> None:
    """What the environment leaves switched on."""
    if os.environ.get(NO_MEMORY) != "1":
        watch(MEMORY)
    if os.environ.get("GPUMEM_KERNELS") != "0":
        watch(KERNELS)
