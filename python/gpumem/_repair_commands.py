# SPDX-License-Identifier: Apache-2.0
"""The commands that doctor gives for a daemon that is gone, and for a driver that is not the daemon's.

Each is one command, chosen by what is found on the machine."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import shlex
import shutil
import stat

from . import _driver, _where

EMULATED = "libcuda-emu.so"

_UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
                 "/usr/lib/systemd/system", "/lib/systemd/system")  # fmt: skip


def _has_unit() -> bool:
    return any(os.path.exists(f"{folder}/gpumemd.service") for folder in _UNIT_FOLDERS)


def _has_gpu() -> bool:
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def _clone() -> pathlib.Path | None:
    """A source tree of gpumemd: where this runs, or what the package or the emulated driver is in."""
    named = os.environ.get("GPUMEM_CUDA_LIBRARY", "")
    places = [pathlib.Path.cwd(), pathlib.Path(__file__).parent]
    if "/" in named:
        places.append(pathlib.Path(named).absolute())
    for place in places:
        for folder in (place, *place.parents):
            if (folder / "tests" / "demo" / "play.sh").exists():
                return folder
    return None


def _play(clone: pathlib.Path) -> str:
    at = "" if clone == pathlib.Path.cwd() else f"-C {shlex.quote(str(clone))} "
    return f"make {at}play  # then set the variables that it prints"


def _gpumemd(clone: pathlib.Path | None) -> str | None:
    built = clone / "build" / "daemon" / "gpumemd" if clone else None
    if shutil.which("gpumemd"):
        return "gpumemd"
    return str(built) if built and os.access(built, os.X_OK) else None


def is_emulated() -> bool:
    """Whether the driver is the emulated one, by whatever name it is loaded."""
    try:
        _driver.load()
        mapped = pathlib.Path("/proc/self/maps").read_text()
    except OSError:
        return False
    return any(line.endswith(f"/{EMULATED}") for line in mapped.splitlines())


def _start(path: str) -> str:
    """The command after which a daemon listens at the socket."""
    clone = _clone()
    program = _gpumemd(clone)
    if path == _where.DEFAULT and _has_unit():
        return "sudo systemctl start gpumemd"
    if os.path.isdir(os.path.dirname(path)) and program:
        return f"{shlex.quote(program)} --socket {shlex.quote(path)}"
    if clone and (is_emulated() or not _has_gpu()):
        return _play(clone)
    if os.environ.get("GPUMEM_SOCKET"):
        return "unset GPUMEM_SOCKET"
    if program is None:
        return ("make deb && sudo apt install ./build/deb/gpumemd_*.deb  # in gpumemd's source "
                "tree")
    return "sudo systemctl start gpumemd"


def _what_is_at(path: str) -> str:
    folder = os.path.dirname(path)
    if os.path.exists(path):
        return "gpumemd has ended there"
    if os.path.isdir(folder):
        return "gpumemd has ended there, or has not begun"
    return f"there is no folder {folder or '.'}"


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def daemon(path: str, result: int) -> tuple[str, str]:
    """(what is found at a socket where no daemon answers, the command that mends it)."""
    is_named = bool(os.environ.get("GPUMEM_SOCKET"))
    is_other = result == errno.EPROTOTYPE or (os.path.exists(path) and not _is_socket(path))
    if is_other or result not in (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED):
        why = "it is not gpumemd's socket" if is_other else "gpumemd may be stopped"
        return why, "unset GPUMEM_SOCKET" if is_named else "sudo systemctl status gpumemd"
    other = next((p for p in _where.default_paths() if p != path and not _where.reach(p)), None)
    if is_named and other:
        return f"GPUMEM_SOCKET names it, and a daemon listens at {other}", "unset GPUMEM_SOCKET"
    return _what_is_at(path), _start(path)


def _emulator_of(pid: int) -> str | None:
    """GPUMEM_EMULATOR as a process has it, "" if it has none. None: that cannot be known."""
    try:
        texts = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    name = b"GPUMEM_EMULATOR="
    return next((os.fsdecode(text[len(name):]) for text in texts if text.startswith(name)), "")


def emulator(pid: int) -> tuple[str, str] | None:
    """(what is wrong with GPUMEM_EMULATOR, its mend) where the emulated driver does not serve.

    `pid`: the daemon's, 0 if it is not known. None: another driver is used, or the variable is as
    the daemon has it."""
    if not is_emulated():
        return None
    ours = os.environ.get("GPUMEM_EMULATOR", "")
    theirs = _emulator_of(pid) if pid else None
    if theirs is not None:
        if theirs == ours:
            return None
        mend = f"export GPUMEM_EMULATOR={shlex.quote(theirs)}" if theirs else "unset GPUMEM_EMULATOR"
        return "GPUMEM_EMULATOR is not as the daemon has it", mend
    if not ours:
        return None
    found = re.search(r"(?:^|,)dir=([^,]*)", ours)
    clone = _clone()
    if found and not os.path.isdir(os.path.dirname(found[1]) or ".") and clone:
        return f"GPUMEM_EMULATOR names {found[1]}, which cannot be made", _play(clone)
    return "GPUMEM_EMULATOR is set", "unset GPUMEM_EMULATOR  # or set it as docs/emulator.md says"


def libcuda() -> tuple[str, str] | None:
    """(why frameworks find no driver though gpumemd's can be loaded, its mend); None: they find one."""
    named = os.environ.get("GPUMEM_CUDA_LIBRARY")
    if not named:
        return None
    try:
        _driver.load_theirs()
    except OSError as error:
        why = str(error)
    else:
        return None
    try:
        _driver.load()
    except OSError:
        return None  # a fault of its own
    folder, name = os.path.split(named)
    folder = os.path.abspath(folder) if folder else "."
    before = ":$LD_LIBRARY_PATH" if os.environ.get("LD_LIBRARY_PATH") else ""
    export = f"export LD_LIBRARY_PATH={shlex.quote(folder)}{before}"
    link = os.path.join(folder, _driver.NAME)
    if not os.path.exists(link):
        export = f"ln -s {shlex.quote(name)} {shlex.quote(link)} && {export}"
    return (f"{why}. Frameworks load {_driver.NAME} by themselves; GPUMEM_CUDA_LIBRARY is "
            "gpumemd's alone"), export
