# SPDX-License-Identifier: Apache-2.0
"""What the C structs of figures become."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Stats:
    """What this process holds in one pool. Bytes: requested <= allocated <= reserved."""

    requested_bytes: int
    requested_peak_bytes: int
    allocated_bytes: int
    allocated_peak_bytes: int
    reserved_bytes: int  # leased from gpumemd
    reserved_peak_bytes: int
    hits: int  # allocations without a message to gpumemd
    misses: int
    blocks: int
    splits: int
    merges: int
    free_bytes: int  # reserved and not allocated: inactive_split and cached
    inactive_split_bytes: int  # in blocks that streams have
    cached_bytes: int  # in blocks that nothing uses; gpumemd may take them
    cached_blocks: int
    largest_free_bytes: int
    free_extents: int
    fragmentation: float  # 1 - largest_free / free; 0 if nothing is free
    live: int  # allocations
    allocations: int  # ever
    frees: int  # ever
    limit_bytes: int | None  # of set_limit(); None: no limit
    cache_limit_bytes: int | None  # of GPUMEM_CACHE_SIZE; None: no limit


@dataclasses.dataclass(frozen=True)
class Info:
    """What a pointer is."""

    kind: str  # "device" or "pinned"
    place: int  # CUDA ordinal, or NUMA node
    base: int
    requested_bytes: int
    allocated_bytes: int
    block_base: int
    block_bytes: int
    block: int  # its number in gpumemctl blocks
    is_registered: bool
    is_attached: bool
    is_held: bool


@dataclasses.dataclass(frozen=True)
class TagStats:
    """What was allocated under a tag."""

    live: int
    requested_bytes: int
    requested_peak_bytes: int
    allocations: int
    frees: int
