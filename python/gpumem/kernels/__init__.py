# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels are kept in a folder of the user's, and compiled by one process of a node.

    import gpumem.kernels
    gpumem.kernels.install("triton", "numba", "cupy")

`python -m gpumem run` and the install() of gpumem.torch, gpumem.cupy and gpumem.numba do that too.
No daemon is needed. GPUMEM_KERNELS=0 switches it off. docs/kernels.md has the rest.
"""

from __future__ import annotations

import importlib
import sys

from .. import _hook, _notice
from . import _settings

# What must be imported before a module here is: its framework.
_FRAMEWORKS = {"triton": "triton", "numba": "numba.cuda", "cupy": "cupy"}


def install(*names: str) -> str:
    """Has frameworks keep their kernels in the store. Says what was done.

    One that is not imported yet follows when it is."""
    for name in names:
        if name not in _FRAMEWORKS:
            raise ValueError(f"unknown framework {name!r} (expected triton, numba or cupy)")
    if _settings.is_off():
        return f"nothing: {_settings.why_off()}"
    done = []
    for name in names:
        if _FRAMEWORKS[name] not in sys.modules:
            _hook.watch({_FRAMEWORKS[name]: [f"kernels.{name}"]})
            done.append(f"{name} when it is imported")
        elif importlib.import_module(f"{__name__}.{name}").install():
            done.append(name)
    return f"kernels of {', '.join(done)}" if done else "nothing"


def try_install(name: str) -> None:
    """For the install() of a framework's memory: what fails here is said, and harms nothing."""
    try:
        install(name)
    except Exception as error:
        _notice.say(f"{name} keeps its own kernel cache: {error}")


__all__ = ["install", "try_install"]
