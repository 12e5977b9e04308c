# SPDX-License-Identifier: Apache-2.0
"""The process's client: C's functions as Python's. The client itself is the library's default one
(NULL), made at the first call that needs it and again in a forked child."""

from __future__ import annotations

import _thread
import ctypes

from . import _errors, _streams, _structs
from ._library import load
from ._structs import DEVICE, KIND_NAMES, KINDS, NEAREST

TYPE_CHECKING = False  # typing costs more than the rest of this package
if TYPE_CHECKING:
    from typing import Any

    from collections.abc import Callable

    from ._figures import Info, Stats, TagStats
    from ._monitor import Monitor

# A thread may have no context, or another device's. Then the primary one serves.
_WANTS_CONTEXT = (_errors.NO_CONTEXT, _errors.WRONG_STREAM)

_REQUEST_BYTES = ctypes.sizeof(_structs.Request)
_INFO_BYTES = ctypes.sizeof(_structs.Info)


def _refusal_text(library: Any, result: int) -> str | None:
    refusal = _structs.sized(_structs.Refusal)
    asked = (lambda: library.last_refusal(None, refusal), lambda: library.connect_refusal(refusal))
    for ask in asked:
        if ask() == 0 and refusal.code == result and refusal.text:
            return refusal.text.decode(errors="replace")
    return None


def error(result: int) -> _errors.Error:
    """The exception for a result, with what the daemon said to this thread."""
    library = load()
    text = _refusal_text(library, result) if result != _errors.NOT_OURS else None
    return _errors.make(result, text or library.strerror(result).decode())


def check(result: int) -> None:
    """Raises for a result that is not 0."""
    if result:
        raise error(result)


def connect() -> None:
    """Connects now, if the process has no client yet. NoDaemon says why it cannot."""
    check(load().default_client(ctypes.byref(ctypes.c_void_p())))


def version() -> str:
    """The version of libgpumem-client, such as "0.2.0"."""
    return load().version().decode()


def whole(name: str, value: Any) -> int:
    """A whole number. TypeError for other things, a float as well."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; a whole number is needed")
    return value.__index__()


def within(name: str, value: Any, high: int, low: int = 0) -> int:
    """A whole number as C takes it: ctypes would cut one that is too large."""
    number = whole(name, value)
    if not low <= number <= high:
        raise ValueError(f"{name} is {number}; {low} to {high} are possible")
    return number


def text(name: str, value: Any) -> bytes:
    """A text as C takes it, which ends at a NUL."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; a text is needed")
    if "\0" in value:
        raise ValueError(f"{name} is {value!r}; a text without NUL is needed")
    return value.encode()


def ordinal(device: Any) -> int:
    """The CUDA ordinal of a number, or of "cuda:1"."""
    if isinstance(device, str):
        number = device.removeprefix("cuda:")
        if number == device or not number.isdecimal():
            raise ValueError(f'the device is {device!r}; a number such as 0, or "cuda:0", is needed')
        device = int(number)
    return within("the device", device, _structs.PLACE_MAX)


def milliseconds(name: str, seconds: Any, high: int = _structs.WAIT_MS_MAX) -> int:
    """For C. More than C takes, such as math.inf, is what it takes at most."""
    if not hasattr(seconds, "__float__"):
        raise TypeError(f"{name} is {seconds!r}; a number of seconds is needed")
    if not seconds >= 0:  # also what is no number, nan
        raise ValueError(f"{name} is {seconds} seconds; 0 or more are possible")
    return int(min(seconds * 1000, high))


def wait_ms(seconds: float) -> int:
    """Milliseconds for C, ten minutes at most."""
    return milliseconds("the wait", seconds)


def allocate(
    n_bytes: int, *, kind: int = DEVICE, place: int | None = None, stream: int = 0,
    flags: int = 0, wait: float = 0.0,
) -> int:  # fmt: skip
    """The address of new memory; 0 for no bytes. `flags`: of gpumem_alloc. `wait` in seconds."""
    if n_bytes <= 0:
        return 0
    within("the number of bytes", n_bytes, _structs.BYTES_MAX)
    if place is not None:
        flags |= _structs.AT_PLACE
        place = place_at(kind, place)
    request = _structs.Request(
        _REQUEST_BYTES, kind, NEAREST if place is None else place, stream or None, n_bytes, flags,
        wait_ms(wait),
    )  # fmt: skip
    made = ctypes.c_void_p()
    result = load().alloc(None, request, made)
    if result in _WANTS_CONTEXT and kind == DEVICE:
        request.flags |= _structs.PRIMARY
        result = load().alloc(None, request, made)
    if result:
        raise error(result)
    return made.value or 0


def _figures_of(struct: ctypes.Structure) -> dict[str, Any]:
    names = [field[0] for field in struct._fields_[1:]]
    return {name.removeprefix("n_"): getattr(struct, name) or 0 for name in names}


def _kind(kind: str) -> int:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of memory: device, pinned")
    return KINDS[kind]


def place_at(kind: int, place: Any) -> int:
    """The number of a device or of a node."""
    return ordinal(place) if kind == DEVICE else within("the node", place, _structs.PLACE_MAX)


def _at(function: Any, kind: int, place: int | None, *arguments: Any) -> None:
    """Calls `function` for a place. None: the nearest, without a context device 0."""
    if place is not None:
        place = place_at(kind, place)
    result = function(None, kind, NEAREST if place is None else place, *arguments)
    if result == _errors.NO_CONTEXT and place is None and kind == DEVICE:
        result = function(None, kind, 0, *arguments)
    check(result)


def _stats_of(struct: _structs.Stats) -> dict[str, Any]:
    said = _figures_of(struct)
    for name in ("limit_bytes", "cache_limit_bytes"):
        said[name] = None if said[name] == _structs.NO_LIMIT else said[name]
    return said


def stats(place: int | None = None, *, kind: str = "device") -> Stats:
    """What this process holds on a device (CUDA ordinal), or with kind="pinned" at a NUMA node."""
    from ._figures import Stats

    got = _structs.sized(_structs.Stats)
    _at(load().get_stats, _kind(kind), place, got)
    return Stats(**_stats_of(got))


_N_OWN_FIGURES = 25  # those that the library knows by itself come first


def _read_figures(place: int | None, kind: int, n_room: int) -> dict[str, int]:
    names = (ctypes.c_char_p * n_room)()
    values = (ctypes.c_uint64 * n_room)()
    n = ctypes.c_size_t()
    _at(load().get_figures, kind, place, names, values, n_room, n)
    return {(names[i] or b"").decode(): values[i] for i in range(min(n.value, n_room))}


def figures(place: int | None = None, *, kind: str = "device") -> dict[str, int]:
    """All figures of a pool, by their names. "available_bytes" is what this process could have
    there beside what it uses: gpumemd is asked for it, and without an answer it is not there."""
    return _read_figures(place, _kind(kind), 128)


def own_figures(place: int) -> dict[str, int]:
    """A device's figures for which gpumemd is not asked."""
    return _read_figures(place, DEVICE, _N_OWN_FIGURES)


def free_bytes(place: int | None, driver_free: int, total: int) -> int:
    """What this process can have of a device; `driver_free` where gpumemd has no pool for it."""
    try:
        found = figures(place)
    except _errors.Error:
        return driver_free
    unused = found["reserved_bytes"] - found["allocated_bytes"]
    return min(found.get("available_bytes", driver_free + unused), total)


def reset_peaks(place: int | None = None, *, kind: str = "device") -> None:
    """Sets the peaks to the present values."""
    _at(load().reset_peaks, _kind(kind), place)


def set_limit(n_bytes: int | None, place: int | None = None, *, kind: str = "device") -> None:
    """The process's own limit of reserved bytes in a pool; None: no limit."""
    limit = _structs.NO_LIMIT if n_bytes is None else within("the limit", n_bytes, _structs.BYTES_MAX)
    _at(load().set_limit, _kind(kind), place, limit)


def set_memory_fraction(fraction: float, device: int = 0) -> None:
    """set_limit() with a part of the device's memory, 0 to 1; 1: no limit."""
    if not hasattr(fraction, "__float__"):
        raise TypeError(f"the fraction is {fraction!r}; a number from 0 to 1 is needed")
    check(load().set_memory_fraction(None, ordinal(device), fraction))


def set_cache_size(n_bytes: int | None) -> None:
    """How much empty memory the process keeps in each pool. None: all, until gpumemd needs it.

    What exceeds it goes back now; waits for GPU work."""
    size = _structs.NO_LIMIT if n_bytes is None else within("the size", n_bytes, _structs.BYTES_MAX)
    check(load().set_cache_size(None, size))


def monitor(
    period: float, callback: Callable[[Stats], object], place: int | None = None, *,
    kind: str = "device",
) -> Monitor:  # fmt: skip
    """Calls `callback(stats)` each `period` seconds, and at events, on a thread; see Monitor."""
    from ._monitor import Monitor

    return Monitor(period, callback, place, _kind(kind))


def wait_for_stats(place: int | None, kind: int, period_ms: int) -> Stats:
    """The statistics after the period, or at an event."""
    from ._figures import Stats

    got = _structs.sized(_structs.Stats)
    _at(load().monitor_wait, kind, place, period_ms, got)
    return Stats(**_stats_of(got))


def describe(pointer: Any) -> Info:
    """What a pointer (an int), or a Buffer's, is."""
    from ._figures import Info

    got = _structs.sized(_structs.Info)
    check(load().describe(None, getattr(pointer, "pointer", pointer), got))
    said = _figures_of(got)
    said["kind"] = KIND_NAMES[said["kind"]]
    for name in ("is_registered", "is_attached", "is_held"):
        said[name] = bool(said[name])
    return Info(**said)


def place_of(pointer: int) -> int:
    """describe(pointer).place, in less time."""
    got = _structs.Info(_INFO_BYTES)
    check(load().describe(None, pointer, got))
    return got.place


def reserve(n_bytes: int, device: int | None = None, *, wait: float = 0.0) -> None:
    """Has blocks for `n_bytes` in this process, all or nothing, for a burst of allocations.

    `wait`: seconds to wait for memory that others hold."""
    place = NEAREST if device is None else ordinal(device)
    within("the number of bytes", n_bytes, _structs.BYTES_MAX)
    check(load().reserve(None, place, n_bytes, wait_ms(wait)))


def flush() -> int:
    """Gives gpumemd every block that holds nothing; waits for GPU work. Bytes that were given."""
    freed = ctypes.c_uint64()
    check(load().flush(None, freed))
    return freed.value


def trim(keep_bytes: int = 0) -> int:
    """Gives gpumemd empty blocks until a pool has no more than `keep_bytes`. Bytes that were given."""
    freed = ctypes.c_uint64()
    check(load().trim(None, within("what is kept", keep_bytes, _structs.BYTES_MAX), freed))
    return freed.value


def trim_idle(seconds: float) -> int:
    """Gives gpumemd the blocks that nothing has used for so long. Bytes that were given."""
    freed = ctypes.c_uint64()
    check(load().trim_idle(None, milliseconds("the time", seconds, 2**32 - 1), freed))
    return freed.value


def free_all_blocks(scope: str = "tenant") -> int:
    """Has gpumemd give what is cached to the driver: the user's, or with "node" everybody's.

    Bytes that were given back. "node" is for root, or over the admin socket."""
    if scope not in _structs.SCOPES:
        raise ValueError(f"{scope!r} is no scope: tenant, node")
    freed = ctypes.c_uint64()
    check(load().free_all_blocks(None, _structs.SCOPES[scope], freed))
    return freed.value


def pressure() -> int:
    """A number that grows when a pool lacked room. Poll it, and free what can be made again."""
    return load().pressure(None)


def stream_register(stream: Any) -> None:
    """Freed memory waits for this stream's work too, until stream_unregister; see gpumem.h."""
    check(load().stream_register(None, _streams.handle(stream) or None))


def stream_unregister(stream: Any) -> None:
    """Ends stream_register. The stream is still alive."""
    check(load().stream_unregister(None, _streams.handle(stream) or None))


class capturing:  # noqa: N801 - it is called as a function
    """`with capturing():` around a capture, from its begin to its end, while other threads use
    gpumem: it then enqueues nothing in streams. gpumem.torch.install() does this for torch's."""

    def __enter__(self) -> None:
        check(load().before_capture(None))

    def __exit__(self, *_: object) -> None:
        check(load().after_capture(None))


_tags: dict[int, list[bytes]] = {}  # of threads that have one now, the innermost last


def _set_tag(name: bytes | None) -> None:
    check(load().set_tag(None, name))


class tag:  # noqa: N801 - it is called as a function
    """Within `with tag(name):` counts what this thread allocates under `name`; see tag_stats()."""

    def __init__(self, name: str) -> None:
        self._name = text("the tag", name)

    def __enter__(self) -> None:
        _set_tag(self._name)
        _tags.setdefault(_thread.get_ident(), []).append(self._name)

    def __exit__(self, *unused: object) -> None:
        names = _tags[_thread.get_ident()]
        names.pop()
        if not names:
            del _tags[_thread.get_ident()]
        _set_tag(names[-1] if names else None)


def tag_stats(name: str) -> TagStats:
    """What was allocated under a tag, by all threads of the process."""
    from ._figures import TagStats

    got = _structs.sized(_structs.TagStats)
    check(load().get_tag_stats(None, text("the tag", name), got))
    return TagStats(**_figures_of(got))
