# SPDX-License-Identifier: Apache-2.0
"""GPU and pinned host memory from gpumemd.

    import gpumem

    weights = gpumem.empty((4096, 4096), "bfloat16", device=0)   # CAI, DLPack
    staging = gpumem.pinned((1024, 1024), "float32").numpy()     # a numpy.ndarray
    token = gpumem.share(gpumem.empty(1 << 20, shareable=True))  # for another process

Frameworks: gpumem.torch, gpumem.cupy, gpumem.numba, gpumem.rmm, gpumem.cuda_core,
gpumem.warp, or all that a program imports: `python -m gpumem run script.py`. docs/frameworks.md says what they serve.
What is wrong on a machine: `python -m gpumem doctor`. docs/python.md has the rest.

A process has one client, made at the first call that needs it and again in a forked child. Every
function may be called from any thread. Errors are gpumem.Error; OutOfMemory is a MemoryError too.
"""

from ._buffer import Buffer, DeviceBuffer, PinnedBuffer, empty, from_dlpack, pinned
from ._client import (
    capturing,
    connect,
    describe,
    figures,
    flush,
    free_all_blocks,
    monitor,
    pressure,
    reserve,
    reset_peaks,
    set_cache_size,
    set_limit,
    set_memory_fraction,
    stats,
    stream_register,
    stream_unregister,
    tag,
    tag_stats,
    trim,
    trim_idle,
    version,
)  # fmt: skip
from ._dtypes import DType
from ._errors import Error, NoDaemon, NoDriver, NotOurs, OutOfMemory, Unsupported
from ._version import __version__

__all__ = [
    "Buffer", "DType", "DeviceBuffer", "Error", "Info", "Monitor", "NoDaemon", "NoDriver",
    "NotOurs", "OutOfMemory", "PinnedBuffer", "Stats", "TagStats", "Unsupported", "__version__",
    "attach", "capturing", "connect", "describe", "empty", "export_dmabuf", "figures", "flush",
    "free_all_blocks", "from_dlpack", "monitor", "pinned", "pressure", "reserve", "reset_peaks", "set_cache_size", "set_limit",
    "set_memory_fraction", "share", "stats", "stream_register", "stream_unregister", "tag",
    "tag_stats", "trim", "trim_idle", "unshare", "version",
]  # fmt: skip

# Imported when they are first asked for: a program's start waits for what is above.
_LATER = {"Info": "_figures", "Monitor": "_monitor", "Stats": "_figures", "TagStats": "_figures",
          "attach": "_share", "export_dmabuf": "_dmabuf", "share": "_share", "unshare": "_share"}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
