# SPDX-License-Identifier: Apache-2.0
"""One process compiles a kernel, the others wait for it.

A kernel that is not in the store begins a flight: with the lock of its key, or after another
process has compiled it, or without either. The lock is the kernel's (flock, by filelock), so a
process that dies releases it. A process holds one lock at a time: a second thread that begins a
flight meanwhile compiles without. None of this is needed for a right result, since kernels are
renamed into the store: without a lock two processes do the same work.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from .. import _notice
from ._store import About, Entry, Store

WAIT_SECONDS = 60.0
SAY_SECONDS = 2.0
SAY_AGAIN_SECONDS = 10.0
POLL_SECONDS = 0.02

_mutex = threading.Lock()
_holder: Flight | None = None  # the flight whose lock this process holds
_inherited: list[Any] = []  # locks of the parent: what ends them would end them for the parent


def _forget_parents() -> None:
    global _holder, _mutex
    if _holder is not None:
        _inherited.append((_holder, _holder._lock))
        _holder._lock = None
    _holder, _mutex = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_parents)


def _new_lock(path: pathlib.Path | str) -> Any:
    """A file lock; None without the library, or with one that is too old."""
    try:
        import filelock

        return filelock.FileLock(str(path), timeout=0, mode=0o600, thread_local=False)
    except (ImportError, TypeError):  # an older one knows not all of these
        _notice.say("filelock 3.12 or newer is not installed: each process compiles for itself, though "
                    "another may be compiling the same kernel; pip install --upgrade filelock")
        return None


def _try(lock: Any) -> bool:
    import filelock

    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return False
    return True


def delete_free_lock(path: str) -> None:
    """Deletes a lock's file and its note, if no process holds it."""
    lock = _new_lock(path)
    with contextlib.suppress(OSError):
        if lock is not None and _try(lock):
            try:
                os.unlink(path)
                os.unlink(f"{path}.note")
            finally:
                lock.release()


def _program() -> str:
    """This program, as a person knows it."""
    path = pathlib.Path(sys.argv[0] if sys.argv else "")
    if path.name == "__main__.py":
        return path.parent.name
    return path.name if path.name not in ("", "-c", "-m") else "python"


class Flight:
    """What a process does about one kernel: `entry` is there, or the caller compiles."""

    def __init__(self, store: Store, key: str, name: str) -> None:
        self.store, self.key, self.name = store, key, name
        self.entry: Entry | None = store.load(key)
        self._lock: Any = None
        self._is_saved = False
        if self.entry is None and store.is_usable:
            self._wait()

    def __enter__(self) -> Flight:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.end()

    def save(self, about: About, files: Mapping[str, bytes]) -> bool:
        """Keeps what was compiled, for this process's successors and for those that wait."""
        self._is_saved = self.store.save(self.key, about, files)
        return self._is_saved

    def end(self) -> None:
        """The lock is released, if it was held. May be called twice."""
        global _holder
        lock, self._lock = self._lock, None
        if lock is not None:
            if not self._is_saved and self.entry is None:
                self._sign_failure()
            with _mutex:
                _holder = None
                with contextlib.suppress(OSError):
                    lock.release()
        if self._is_saved:
            self.store.sweep_if_due()

    # The lock.

    def _wait(self) -> None:
        lock = None if _holder is not None else _new_lock(self.store.lock_path(self.key))
        if lock is None:
            return
        began, began_at = time.monotonic(), time.time()
        say_at = SAY_SECONDS
        while not self._take(lock):
            if self.store.has(self.key):
                self.entry = self.store.load(self.key)
            if self.entry is not None:
                return
            note, waited = self._read_note(), time.monotonic() - began
            if self._has_failed_since(began_at):  # else all would do so one after another
                return
            if waited >= WAIT_SECONDS:
                _notice.say(f"{self._other(note)} has not compiled {self.name} in "
                            f"{waited:.0f} s: this process compiles it too")
                return
            if waited >= say_at:
                say_at += SAY_AGAIN_SECONDS
                _notice.say(f"waiting for {self._other(note)} to compile {self.name}, "
                            f"{waited:.0f} s")
            time.sleep(POLL_SECONDS)
        if self._lock is None:  # it cannot be had here
            return
        self.entry = self.store.load(self.key)
        if self.entry is not None:
            self.end()
        else:
            self._write_note()

    def _take(self, lock: Any) -> bool:
        """Whether there is nothing more to wait for: it is ours, or it cannot be had."""
        global _holder
        with _mutex:
            if _holder is not None:
                return False
            try:
                if not _try(lock):
                    return False
            except OSError as error:
                _notice.say(f"kernels are compiled without a lock: {self.store.folder}: "
                            f"{error.strerror}")
                return True
            self._lock, _holder = lock, self
            return True

    # A compiler that fails, or cannot keep its kernel, says so by the times of the lock's file:
    # that works on a full disk.

    def _sign_failure(self) -> None:
        with contextlib.suppress(OSError):
            os.utime(self.store.lock_path(self.key), (0, time.time()))

    def _has_failed_since(self, began: float) -> bool:
        try:
            found = os.stat(self.store.lock_path(self.key))
        except OSError:
            return False
        return found.st_atime == 0 and found.st_mtime > began

    # The note beside it: which process holds it, for people.

    def _note_path(self) -> str:
        return f"{self.store.lock_path(self.key)}.note"

    def _write_note(self) -> None:
        note = {"pid": os.getpid(), "program": _program()}
        with contextlib.suppress(OSError), open(self._note_path(), "w") as file:
            json.dump(note, file)

    def _read_note(self) -> dict[str, Any]:
        try:
            with open(self._note_path()) as file:
                note = json.load(file)
            return note if isinstance(note["pid"], int) else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @staticmethod
    def _other(note: dict[str, Any]) -> str:
        return f"pid {note['pid']} ({note.get('program')})" if note else "another process"
