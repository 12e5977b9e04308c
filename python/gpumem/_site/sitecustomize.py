# SPDX-License-Identifier: Apache-2.0
"""Run by descendants of `python -m gpumem run` when they start: this folder is on their PYTHONPATH.

Watches for frameworks, then runs the sitecustomize that the interpreter would have run. Every
Python that starts pays for what is imported here.
"""

import importlib.machinery
import os
import sys
import types

_folder = os.path.dirname(os.path.abspath(__file__))


def _watch():
    path = os.path.join(os.path.dirname(_folder), "_hook.py")
    module = types.ModuleType("_gpumem_hook")
    module.__file__ = path
    sys.modules["_gpumem_hook"] = module
    importlib.machinery.SourceFileLoader("_gpumem_hook", path).exec_module(module)
    module.watch_chosen()


def _run_the_users():
    rest = [entry for entry in sys.path if os.path.abspath(entry or ".") != _folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    if os.environ.get("GPUMEM_DISABLE", "0") in ("", "0"):
        _watch()
finally:
    _run_the_users()
