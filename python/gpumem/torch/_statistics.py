# SPDX-License-Identifier: Apache-2.0
"""What torch.cuda's functions about memory say, from gpumemd's figures.

torch._C's functions raise with a pluggable allocator. Those here take their places.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _client, _errors
from . import _patches

_fractions: dict[int, float] = {}


def _group(current: int = 0, peak: int = 0, allocated: int = 0, freed: int = 0) -> dict[str, Any]:
    """One of torch's figures: small and large allocations are not told apart."""
    whole = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
    none = dict.fromkeys(whole, 0)
    return {"all": whole, "small_pool": dict(none), "large_pool": dict(none)}


def memory_stats(device: int) -> dict[str, Any]:
    """torch._C._cuda_memoryStats: torch's names, nested as there."""
    held = _client.stats(device)
    events = _client.figures(device)
    n_allocations = held.hits + held.misses
    allocated = _group(held.allocated_bytes, held.allocated_peak_bytes)
    none = _group()["all"]
    return {
        "allocated_bytes": allocated,
        "active_bytes": _group(held.allocated_bytes, held.allocated_peak_bytes),
        "requested_bytes": _group(held.requested_bytes, held.requested_peak_bytes),
        "reserved_bytes": _group(held.reserved_bytes, held.reserved_peak_bytes),
        "inactive_split_bytes": _group(held.reserved_bytes - held.allocated_bytes),
        "allocation": _group(allocated=n_allocations),
        "active": _group(allocated=n_allocations),
        "segment": _group(held.blocks),
        "inactive_split": _group(),
        "oversize_allocations": dict(none),
        "oversize_segments": dict(none),
        "num_alloc_retries": events.get("pressures", 0),
        "num_ooms": events.get("refusals", 0),
        "num_sync_all_streams": 0,
        "num_device_alloc": held.misses,
        "num_device_free": 0,
        "max_split_size": -1,
    }


def _ordinal(device: Any) -> int:
    return torch.cuda._utils._get_device_index(device, optional=True)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes. Free is what the driver has, and what this process holds unused."""
    ordinal = _ordinal(device)
    free, total = torch.cuda.cudart().cudaMemGetInfo(ordinal)
    try:
        held = _client.stats(ordinal)
    except _errors.Error:  # gpumemd has no pool for it
        return free, total
    return min(free + held.reserved_bytes - held.allocated_bytes, total), total


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


def install() -> None:
    """Torch's functions say gpumemd's figures from now on."""
    _patches.put(torch._C, "_cuda_memoryStats", memory_stats)
    _patches.put(torch._C, "_cuda_resetPeakMemoryStats", _client.reset_peaks)
    _patches.put(torch._C, "_cuda_resetAccumulatedMemoryStats", lambda device: None)
    replace("mem_get_info", mem_get_info)
    _wrap_fraction()
