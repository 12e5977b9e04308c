# SPDX-License-Identifier: Apache-2.0
"""Where gpumemd listens, and whether this user reaches it: no library is needed to ask."""

from __future__ import annotations

import errno
import grp
import os
import socket
import struct

DEFAULT = "/run/gpumemd/gpumemd.sock"


def default_paths() -> list[str]:
    """Sockets that a client tries without GPUMEM_SOCKET, in order."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [DEFAULT] + ([f"{runtime}/gpumemd/gpumemd.sock"] if runtime else [])


def paths() -> list[str]:
    """Sockets that a client tries, in order."""
    named = os.environ.get("GPUMEM_SOCKET")
    return [named] if named else default_paths()


def connect(made: socket.socket, path: str) -> int:
    """Connects; waits up to 10 s where gpumemd's queue is full. 0, or an errno."""
    # A socket with a timeout of Python's does not wait for a place in the queue.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))
    return made.connect_ex(path)


def reach(path: str) -> int:
    """Connects and hangs up. 0, or an errno."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        try:
            return connect(made, path)
        except OSError as error:  # a path that is too long has no errno
            return error.errno or errno.ENAMETOOLONG


def find() -> tuple[str, int]:
    """The first socket that answers, with 0; else the one to speak of, with its errno."""
    tried = []
    for path in paths():
        tried.append((path, reach(path)))
        if tried[-1][1] == 0:
            return tried[-1]
    return next(((p, r) for p, r in tried if r != errno.ENOENT), tried[0])


def group_of(path: str) -> str | None:
    """The group that may connect; None where that cannot be known."""
    try:
        return grp.getgrgid(os.stat(path).st_gid).gr_name
    except (OSError, KeyError):
        return None


def problem() -> str | None:
    """Why there is no daemon for this user; None: there is."""
    path, result = find()
    if result == 0:
        return None
    if result == errno.EACCES:
        return f"{path}: permission denied; `python -m gpumem doctor` says what to do"
    return (f"no gpumemd at {path} ({os.strerror(result)}); "
            "`python -m gpumem doctor` says what to do")
