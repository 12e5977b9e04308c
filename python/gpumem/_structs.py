# SPDX-License-Identifier: Apache-2.0
"""The structs and constants of gpumem.h."""

from __future__ import annotations

import ctypes

DEVICE = 1
PINNED = 2
NEAREST = -1

SHAREABLE = 1
AT_PLACE = 2
PRIMARY = 4
REGISTERED = 8
RDMA = 16

SHARE_GRANT = 1

SCOPES = {"tenant": 1, "node": 2}
KINDS = {"device": DEVICE, "pinned": PINNED}
KIND_NAMES = {number: name for name, number in KINDS.items()}

NO_LIMIT = 2**64 - 1
WAIT_MS_MAX = 600_000
BYTES_MAX = 2**63 - 1
PLACE_MAX = 2**31 - 1


class Request(ctypes.Structure):
    """struct gpumem_request"""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("place", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
        ("n_bytes", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("wait_ms", ctypes.c_uint32),
    ]


class Stats(ctypes.Structure):
    """struct gpumem_stats"""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("n_requested_bytes", ctypes.c_uint64),
        ("n_requested_peak_bytes", ctypes.c_uint64),
        ("n_allocated_bytes", ctypes.c_uint64),
        ("n_allocated_peak_bytes", ctypes.c_uint64),
        ("n_reserved_bytes", ctypes.c_uint64),
        ("n_reserved_peak_bytes", ctypes.c_uint64),
        ("n_hits", ctypes.c_uint64),
        ("n_misses", ctypes.c_uint64),
        ("n_blocks", ctypes.c_uint64),
        ("n_splits", ctypes.c_uint64),
        ("n_merges", ctypes.c_uint64),
        ("n_free_bytes", ctypes.c_uint64),
        ("n_inactive_split_bytes", ctypes.c_uint64),
        ("n_cached_bytes", ctypes.c_uint64),
        ("n_cached_blocks", ctypes.c_uint64),
        ("n_largest_free_bytes", ctypes.c_uint64),
        ("n_free_extents", ctypes.c_uint64),
        ("fragmentation", ctypes.c_double),
        ("n_live", ctypes.c_uint64),
        ("n_allocations", ctypes.c_uint64),
        ("n_frees", ctypes.c_uint64),
        ("n_limit_bytes", ctypes.c_uint64),
        ("n_cache_limit_bytes", ctypes.c_uint64),
    ]


class TagStats(ctypes.Structure):
    """struct gpumem_tag_stats"""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("n_live", ctypes.c_uint64),
        ("n_requested_bytes", ctypes.c_uint64),
        ("n_requested_peak_bytes", ctypes.c_uint64),
        ("n_allocations", ctypes.c_uint64),
        ("n_frees", ctypes.c_uint64),
    ]


class Info(ctypes.Structure):
    """struct gpumem_info"""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("place", ctypes.c_int32),
        ("base", ctypes.c_void_p),
        ("n_requested_bytes", ctypes.c_uint64),
        ("n_allocated_bytes", ctypes.c_uint64),
        ("block_base", ctypes.c_void_p),
        ("n_block_bytes", ctypes.c_uint64),
        ("block", ctypes.c_uint64),
        ("is_registered", ctypes.c_uint32),
        ("is_attached", ctypes.c_uint32),
        ("is_held", ctypes.c_uint32),
    ]


class Refusal(ctypes.Structure):
    """struct gpumem_refusal"""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("code", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("place", ctypes.c_int32),
        ("n_bytes", ctypes.c_uint64),
        ("text", ctypes.c_char * 400),
    ]


class Token(ctypes.Structure):
    """struct gpumem_token"""

    _fields_ = [("bytes", ctypes.c_uint8 * 16)]


class ShareOptions(ctypes.Structure):
    """struct gpumem_share_options. A library without keep_ms refuses one that is not 0 (-E2BIG)."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("keep_ms", ctypes.c_uint32),
    ]


def sized(struct, **fields):
    """A struct of that class whose struct_size is set."""
    made = struct(**fields)
    made.struct_size = ctypes.sizeof(struct)
    return made
