# SPDX-License-Identifier: Apache-2.0
"""What torch.cuda's functions about memory say, from gpumemd's figures.

torch._C's functions raise with a pluggable allocator. Those here take their places.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _client
from . import _patches

_fractions: dict[int, float] = {}


def memory_stats(device: int) -> dict[str, Any]:
    """torch._C._cuda_memoryStats: those of torch's figures that gpumemd's client has, as nested.

    Not there: what became of small and of large allocations, bytes allocated and freed ever,
    splits, oversize ones. The client does not count these."""
    held = _client.stats(device)
    events = _client.own_figures(device)

    def whole(**numbers: int) -> dict[str, Any]:
        return {"all": numbers}

    allocated = whole(current=held.allocated_bytes, peak=held.allocated_peak_bytes)
    return {
        "allocated_bytes": allocated,
        "active_bytes": allocated,
        "requested_bytes": whole(current=held.requested_bytes, peak=held.requested_peak_bytes),
        "reserved_bytes": whole(current=held.reserved_bytes, peak=held.reserved_peak_bytes),
        "inactive_split_bytes": whole(current=held.inactive_split_bytes),
        "allocation": whole(current=held.live, allocated=held.allocations, freed=held.frees),
        "segment": whole(current=held.blocks),
        "num_alloc_retries": events["pressures"],
        "num_ooms": events["refusals"],
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """torch.cuda.memory_summary with the figures of memory_stats()."""
    ordinal = _ordinal(device)
    found = memory_stats(ordinal)
    lines = [f"gpumem: CUDA memory of this process, device {ordinal}",
             f"out of memory: {found['num_ooms']}, retries: {found['num_alloc_retries']}",
             f"{'':<18}{'now':>14}{'peak':>14}"]  # fmt: skip
    for name in ("requested_bytes", "allocated_bytes", "reserved_bytes"):
        of = found[name]["all"]
        lines.append(f"{name.replace('_bytes', ', MiB'):<18}{of['current'] / 2**20:>14.1f}"
                     f"{of['peak'] / 2**20:>14.1f}")  # fmt: skip
    lines.append(f"{'blocks':<18}{found['segment']['all']['current']:>14}")
    n_ever = found["allocation"]["all"]["allocated"]
    lines.append(f"{'allocations':<18}{n_ever:>14}  since the start")
    return "\n".join(lines) + "\n"


def _ordinal(device: Any) -> int:
    return torch.cuda._utils._get_device_index(device, optional=True)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes. Free is what this process could have through gpumemd."""
    ordinal = _ordinal(device)
    free, total = torch.cuda.cudart().cudaMemGetInfo(ordinal)
    return _client.free_bytes(ordinal, free, total), total


def _wrap_fraction() -> None:
    """Torch cannot ask a pluggable allocator for the fraction that was set."""
    module = torch.cuda.memory
    set_fraction = module.set_per_process_memory_fraction

    def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
        set_fraction(fraction, device)
        _fractions[_ordinal(device)] = fraction

    def get_per_process_memory_fraction(device: Any = None) -> float:
        return _fractions.get(_ordinal(device), 1.0)

    for function in (set_per_process_memory_fraction, get_per_process_memory_fraction):
        replace(function.__name__, function)


def replace(name: str, function: Any) -> None:
    """A function of torch.cuda.memory, and its name in torch.cuda."""
    _patches.put(torch.cuda.memory, name, function)
    if hasattr(torch.cuda, name):
        _patches.put(torch.cuda, name, function)


def install(*, is_whole: bool = True) -> None:
    """Torch's functions say gpumemd's figures from now on. The extension counts by itself: then
    this is not the whole."""
    if is_whole:
        _patches.put(torch._C, "_cuda_memoryStats", memory_stats)
        _patches.put(torch._C, "_cuda_resetPeakMemoryStats", _client.reset_peaks)
        _patches.put(torch._C, "_cuda_resetAccumulatedMemoryStats", lambda device: None)
        replace("memory_summary", memory_summary)
    replace("mem_get_info", mem_get_info)
    _wrap_fraction()
