# SPDX-License-Identifier: Apache-2.0
"""The store's settings, as the environment gives them."""

from __future__ import annotations

import os
import pathlib
import re

from .. import _notice

DEFAULT_BYTES = 4 << 30

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def why_off() -> str | None:
    """The setting that switches the store off; None: it is on."""
    if _notice.is_disabled():
        return "GPUMEM_DISABLE is set"
    return "GPUMEM_KERNELS=0" if os.environ.get("GPUMEM_KERNELS", "") == "0" else None


def is_off() -> bool:
    """GPUMEM_KERNELS=0, or GPUMEM_DISABLE=1."""
    return why_off() is not None


def folder() -> pathlib.Path | None:
    """The user's folder. None where the user has no home."""
    named = os.environ.get("GPUMEM_KERNELS_DIR")
    if named:
        return pathlib.Path(named).absolute()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(cache):  # others are ignored, as its specification says
        return pathlib.Path(cache, "gpumem", "kernels")
    home = os.path.expanduser("~")
    return pathlib.Path(home, ".cache", "gpumem", "kernels") if os.path.isabs(home) else None


def lower_folders() -> list[pathlib.Path]:
    """Stores that are read and never written, in the order in which they are tried."""
    names = os.environ.get("GPUMEM_KERNELS_LOWER", "").split(os.pathsep)
    return [pathlib.Path(name).absolute() for name in names if name]


def parse_size(text: str) -> int | None:
    """Bytes of 512MiB, 1.5GiB, 64M or 4096; None for other texts."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:iB|B)?", text.strip())
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def budget() -> int:
    """GPUMEM_KERNELS_SIZE: how many bytes the user's folder may hold."""
    text = os.environ.get("GPUMEM_KERNELS_SIZE", "")
    if not text:
        return DEFAULT_BYTES
    size = parse_size(text)
    if size is None:
        _notice.say(f"invalid GPUMEM_KERNELS_SIZE={text} (expected a size such as 512MiB or "
                    f"1.5GiB); the store holds {human_size(DEFAULT_BYTES)}")
        return DEFAULT_BYTES
    return size


def human_size(n_bytes: int) -> str:
    """As a person reads it: 4.0 KiB, 217 KiB, 1.5 GiB."""
    if n_bytes < 1024:
        return f"{n_bytes} B"
    size = float(n_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1000 or unit == "TiB":
            break
    return f"{size:.1f} {unit}" if size < 10 else f"{size:.0f} {unit}"


def human_age(seconds: float) -> str:
    """As a person reads it: 12 s, 5 min, 3 h, 20 days."""
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{max(0, int(seconds / divisor))} {unit}"
    return f"{int(seconds / 86400)} days"
