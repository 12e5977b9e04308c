# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels of a user, as files: one file a kernel, named by its key.

A file is a header of one line (JSON), the header's digest, and what was compiled. It is written
under another name and renamed, so a reader sees all of it or nothing. Each load checks the header's
digest, and a checksum of each part (CRC-32): a digest of half a megabyte takes as long as the rest
of a load. They find damage; who may write to the folder is a matter of its owner and mode.
Files are read by programs that run what is in them: a folder that another user could write to is
refused. Any process and any thread may call all of this; there are no locks here, see _flight.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import _notice
from . import _settings

_MAGIC = b"gpumem kernel 2\n"
_HEAD_BYTES, _HEAD_MAX = 8192, 1 << 20  # the header is mostly in the first, and never longer
_TOUCH_SECONDS = 60.0  # how exactly "least recently used" is known
_TEMPORARY = ".tmp-"
_LEFT_SECONDS = 3600.0  # a temporary file of that age has no writer any more
_LOCK_SECONDS = 86400.0  # a lock file of that age goes, if it is free
_MODE_FOLDER, _MODE_FILE = 0o700, 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_numbers = itertools.count()


class Damaged(ValueError):
    """A file that does not hold what was written."""


@dataclasses.dataclass(frozen=True)
class About:
    """What a kernel is, for those that list it."""

    producer: str  # triton, numba, cupy
    name: str
    version: str = ""  # the producer's
    target: str = ""  # the compute capability


@dataclasses.dataclass(frozen=True)
class Entry:
    """A kernel that was loaded, and whose checksums are right."""

    about: About
    files: dict[str, bytes]


@dataclasses.dataclass(frozen=True)
class Listed:
    """A kernel as a listing has it."""

    key: str
    about: About
    n_bytes: int
    made: float  # seconds since 1970
    used: float
    path: pathlib.Path


def key(*parts: object) -> str:
    """A digest of parts, of their types, and of where each ends. Bytes stand for themselves."""
    digest = hashlib.sha256(_MAGIC)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(f"{type(part).__name__} {len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def encode(name: str, about: About, files: Mapping[str, bytes]) -> bytes:
    """A file's bytes."""
    header = json.dumps({
        "key": name, "about": dataclasses.asdict(about), "made": time.time(),
        "files": [[part, len(data), zlib.crc32(data)]
                  for part, data in files.items()],
    }).encode() + b"\n"
    digest = hashlib.sha256(header).hexdigest().encode() + b"\n"
    return b"".join((_MAGIC, header, digest, *files.values()))


def _decode_header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where the files begin. Raises Damaged."""
    if not data.startswith(_MAGIC):
        raise Damaged("its first line")
    end = data.find(b"\n", len(_MAGIC)) + 1
    header, digest = data[len(_MAGIC):end], data[end:end + 65]
    if not end or digest != hashlib.sha256(header).hexdigest().encode() + b"\n":
        raise Damaged("its header")
    return json.loads(header), end + 65


def _read_head(n_bytes: int, read: Callable[[int, int], bytes]) -> bytes:
    """The header's bytes, and mostly some more."""
    head = read(min(n_bytes, _HEAD_BYTES), 0)
    end = head.find(b"\n", len(_MAGIC))
    if 0 <= end < len(head) - 65 or len(head) < _HEAD_BYTES or not head.startswith(_MAGIC):
        return head
    return read(min(n_bytes, _HEAD_MAX), 0)


def decode(name: str, n_bytes: int, read: Callable[[int, int], bytes]) -> Entry:
    """What `encode` was given, of a file of n_bytes. Raises Damaged.

    `read` gives so many bytes from a place on: each part is read by itself, and not copied."""
    header, offset = _decode_header(_read_head(n_bytes, read))
    if header["key"] != name:
        raise Damaged("its key")
    sizes = [size for _, size, _ in header["files"]]
    if not all(0 <= size <= n_bytes for size in sizes) or n_bytes != offset + sum(sizes):
        raise Damaged("its length")
    files = {}
    for part, size, checksum in header["files"]:
        files[part] = read(size, offset)
        offset += size
        if zlib.crc32(files[part]) != checksum:
            raise Damaged(part)
    return Entry(About(**header["about"]), files)


def _read(fd: int, n_bytes: int, place: int) -> bytes:
    """So many bytes from a place on, or what there is. A file system may give fewer at a time."""
    parts = [os.pread(fd, n_bytes, place)]
    n_read = len(parts[0])
    while n_read < n_bytes and parts[-1]:
        parts.append(os.pread(fd, n_bytes - n_read, place + n_read))
        n_read += len(parts[-1])
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _distrust(folder: pathlib.Path, owners: set[int]) -> str | None:
    """Why what lies in a folder must not be run; None: it may."""
    found = folder.stat()
    return _distrust_found(found, owners) if stat.S_ISDIR(found.st_mode) else "it is not a folder"


def _distrust_found(found: os.stat_result, owners: set[int]) -> str | None:
    if found.st_uid not in owners:
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & _OTHERS_WRITE:
        return f"other users may write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


class Store:
    """A user's folder, and the lower ones below it."""

    def __init__(self, folder: pathlib.Path | None, lower: list[pathlib.Path], budget: int) -> None:
        self.folder, self.lower, self.budget = folder, lower, budget
        self._unchecked_bytes: int | None = None  # written since a sweep; None: none has been
        self._is_out_of_use = False
        self._is_trusted = self._is_refused = False  # the user's folder, once it is there

    # Folders.

    def _set_out_of_use(self, reason: str) -> None:
        self._is_out_of_use = True
        _notice.say(f"kernels are compiled without the store: {reason}")

    @property
    def _own(self) -> pathlib.Path | None:
        """The user's folder for reading; None: it is refused. One that is not there yet is looked at
        again: another user may make it."""
        if self.folder is None or self._is_refused:
            return None
        if self._is_trusted:
            return self.folder / "entries"
        try:
            reason = _distrust(self.folder, {os.geteuid()})
        except FileNotFoundError:
            return self.folder / "entries"
        except OSError as error:
            reason = error.strerror
        self._is_trusted = reason is None
        if reason:
            self._is_refused = True
            self._set_out_of_use(f"{self.folder}: {reason}")
            return None
        return self.folder / "entries"

    @functools.cached_property
    def _lower(self) -> list[pathlib.Path]:
        trusted = []
        for folder in self.lower:
            try:
                reasons = [_distrust(part, {os.geteuid(), 0})
                           for part in (folder, folder / "entries")]
                reason = next(filter(None, reasons), None)
            except OSError as error:
                reason = error.strerror
            if reason:
                _notice.say(f"kernels of {folder} are not used: {reason}")
            else:
                trusted.append(folder / "entries")
        return trusted

    @functools.cached_property
    def is_writable(self) -> bool:
        """Makes the user's folder. False where that cannot be, which is said once."""
        if self.folder is None:
            self._set_out_of_use("this user has no home; GPUMEM_KERNELS_DIR names a folder")
            return False
        if self._own is None:
            return False
        try:
            self.folder.mkdir(_MODE_FOLDER, parents=True, exist_ok=True)
            for name in ("entries", "locks"):
                (self.folder / name).mkdir(_MODE_FOLDER, exist_ok=True)
                if not os.access(self.folder / name, os.W_OK | os.X_OK):
                    raise PermissionError(13, os.strerror(13))
            reason = _distrust(self.folder, {os.geteuid()})
        except OSError as error:
            reason = error.strerror
        if reason:
            self._set_out_of_use(f"{self.folder}: {reason}")
            return False
        return True

    @property
    def is_usable(self) -> bool:
        """Whether kernels can be kept, as far as is known."""
        return not self._is_out_of_use and self.is_writable

    def lock_path(self, name: str) -> pathlib.Path:
        """The file whose lock is a key's."""
        assert self.folder is not None
        return self.folder / "locks" / f"{name}.lock"

    # Kernels.

    def load(self, name: str) -> Entry | None:
        """A kernel; None: it is not here. A file that is damaged is said, and deleted."""
        if self._own is not None:
            entry = self._load(self._own / name, name, is_own=True)
            if entry is not None:
                return entry
        for folder in self._lower:
            entry = self._load(folder / name, name, is_own=False)
            if entry is not None:
                return entry
        return None

    def _load(self, path: pathlib.Path, name: str, is_own: bool) -> Entry | None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            _notice.say(f"kernels in {path.parent} cannot be read: {error.strerror}")
            return None
        try:
            found = os.fstat(fd)
            reason = _distrust_found(found, {os.geteuid()} if is_own else {os.geteuid(), 0})
            if reason:
                _notice.say(f"kernel {path} is not used: {reason}")
                return None
            entry = decode(name, found.st_size, functools.partial(_read, fd))
            if is_own and time.time() - found.st_mtime > _TOUCH_SECONDS:
                os.utime(fd)
            return entry
        except (Damaged, ValueError, KeyError, TypeError, RecursionError) as damage:
            self._drop_damaged(path, found, damage, is_own)
        except OSError as error:
            _notice.say(f"kernel {path} cannot be read: {error.strerror}")
        finally:
            os.close(fd)
        return None

    @staticmethod
    def _drop_damaged(
        path: pathlib.Path, found: os.stat_result, damage: Exception, is_own: bool
    ) -> None:
        part = damage if isinstance(damage, Damaged) else "its header"
        if not is_own:
            _notice.say(f"kernel {path} is damaged ({part}); it is not used")
            return
        _notice.say(f"kernel {path} is damaged ({part}); it is deleted and compiled again")
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == found.st_ino:  # not the next one, which is sound
                os.unlink(path)

    def has(self, name: str) -> bool:
        """Whether there is a file of the user's with that key."""
        return self._own is not None and os.path.exists(self._own / name)

    def save(self, name: str, about: About, files: Mapping[str, bytes]) -> bool:
        """Keeps a kernel. False where it cannot, which is said once."""
        if not self.is_usable:
            return False
        assert self._own is not None
        data = encode(name, about, files)
        if len(data) > self.budget:
            _notice.say(f"kernel {about.name} has {_settings.human_size(len(data))}, and the store "
                        f"may hold {_settings.human_size(self.budget)} (GPUMEM_KERNELS_SIZE): it "
                        "is not kept")
            return False
        temporary = self._own / f"{_TEMPORARY}{os.getpid()}-{next(_numbers)}-{name[:16]}"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE_FILE)
            with open(fd, "wb") as file:
                file.write(data)
            os.replace(temporary, self._own / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            self._set_out_of_use(f"{self.folder}: {error.strerror}")
            return False
        if self._unchecked_bytes is not None:
            self._unchecked_bytes += len(data)
        return True

    # The budget.

    def sweep_if_due(self) -> None:
        """At a process's first kernel, and then after each sixteenth of the budget."""
        due = self._unchecked_bytes is None or self._unchecked_bytes * 16 > self.budget
        if due and not self._is_out_of_use:
            self._unchecked_bytes = 0
            self.sweep()

    def sweep(self) -> None:
        """Deletes the least recently used kernels, until the others are within the budget."""
        if self._own is None or self.folder is None:
            return
        found, now = [], time.time()
        for entry, status in _scan(self._own):
            if not entry.name.startswith(_TEMPORARY):
                found.append((status.st_mtime, status.st_size, entry.path))
            elif now - status.st_mtime > _LEFT_SECONDS:
                _delete(entry.path)
        n_bytes = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if n_bytes <= self.budget:
                break
            _delete(path)
            n_bytes -= size
        from ._flight import delete_free_lock

        for entry, status in _scan(self.folder / "locks"):
            if now - status.st_mtime > _LOCK_SECONDS:
                delete_free_lock(entry.path)

    def clear(self, producer: str | None = None, unused_for: float = 0) -> tuple[int, int]:
        """Deletes kernels of the user's; gives how many, and their bytes."""
        n, n_bytes, now = 0, 0, time.time()
        for listed in self.list():
            if producer in (None, listed.about.producer) and now - listed.used >= unused_for:
                listed.path.unlink(missing_ok=True)
                n, n_bytes = n + 1, n_bytes + listed.n_bytes
        return n, n_bytes

    def list(self) -> Iterator[Listed]:
        """The user's kernels. A header that cannot be read is listed as damaged."""
        if self._own is None:
            return
        for entry, status in _scan(self._own):
            if entry.name.startswith(_TEMPORARY):
                continue
            about, made = About("?", "damaged"), status.st_mtime
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                with open(entry.path, "rb") as file:
                    header = _decode_header(b"".join(file.readline(1 << 20) for _ in range(3)))[0]
                about, made = About(**header["about"]), header["made"]
            yield Listed(entry.name, about, status.st_size, made, status.st_mtime,
                         pathlib.Path(entry.path))


def _scan(folder: pathlib.Path) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Files of a folder, as far as they are still there."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            yield entry, entry.stat(follow_symlinks=False)


def _delete(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_SETTINGS = ("GPUMEM_KERNELS", "GPUMEM_DISABLE", "GPUMEM_KERNELS_DIR", "GPUMEM_KERNELS_SIZE",
             "GPUMEM_KERNELS_LOWER", "XDG_CACHE_HOME", "HOME")


@functools.cache
def _store_of(*settings: str | None) -> Store:
    return Store(_settings.folder(), _settings.lower_folders(), _settings.budget())


def here() -> Store:
    """The store that the environment names now, also where programs do not use it."""
    return _store_of(*map(os.environ.get, _SETTINGS))


def store() -> Store | None:
    """The store that the environment names now; None: it is switched off."""
    return None if _settings.is_off() else here()
