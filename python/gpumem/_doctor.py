# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem doctor: what serves this process, what does not, and what mends it."""

from __future__ import annotations

import dataclasses
import errno
import getpass
import grp
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import socket
import struct
import sys
from collections.abc import Iterator

from . import _client, _driver, _errors, _library, _repair_commands, _notice, _torch_extension, _where
from ._version import __version__

USAGE = """\
usage: python -m gpumem doctor [--json]

Looks at the library, the daemon, the driver and the frameworks that are
installed here, says which would be served and how, and gives the command that
mends each fault. Changes nothing.

  --json  the same for programs:
          {"faults": N, "checks": [{"name", "state", "text", "mend"}]}

exit status: 0 no faults, 1 faults, or the output could not be written; 2 for a
wrong call
"""

OK, NOTE, FAULT = "ok", "note", "fault"

# distribution: (adapter, how it is served)
_FRAMEWORKS = {
    "torch": ("torch", "every CUDA tensor"),
    "cupy": ("cupy", "arrays and pinned memory"),
    "cupy-cuda12x": ("cupy", "arrays and pinned memory"),
    "cupy-cuda13x": ("cupy", "arrays and pinned memory"),
    "numba-cuda": ("numba", "device and pinned memory"),
    "rmm-cu12": ("rmm", "device memory"),
    "rmm-cu13": ("rmm", "device memory"),
    "cuda-core": ("cuda_core", "device memory"),
    "warp-lang": ("warp", "arrays on CUDA devices"),
}


@dataclasses.dataclass(frozen=True)
class Check:
    """What was looked at."""

    name: str
    state: str
    text: str
    mend: str = ""  # a command, or what else mends a fault


def _check_package() -> Check:
    place = pathlib.Path(__file__).parent
    return Check("package", OK,
                 f"gpumem {__version__}, Python {platform.python_version()}, {place}")


def _mend_library() -> str:
    if "GPUMEM_LIBRARY" in os.environ:
        return "unset GPUMEM_LIBRARY"
    return "install this package again, from gpumem's sources: pip install --force-reinstall ./python"


def _check_library() -> Check:
    try:
        library = _library.load()
    except _errors.Error as error:
        return Check("library", FAULT, str(error), _mend_library())
    return Check("library", OK, f"{library.path}, version {_client.version()}")


def _mend_permission(path: str) -> tuple[str, str]:
    group = _where.group_of(path)
    if group is None:
        return "this user may not connect", "gpumemd's administrator knows which group may"
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    try:
        is_member = user in grp.getgrnam(group).gr_mem
    except KeyError:
        is_member = False
    if is_member:
        return f"{user} is in group {group}, but this session began before", f"newgrp {group}"
    return (f"{user} is not in group {group}, whose the socket is",
            f"sudo usermod -aG {group} {user}  # then log in again")


def _check_daemon() -> Check:
    path, result = _where.find()
    if result == 0:
        return Check("daemon", OK, f"{path}{_peer(path)}")
    if result == errno.EACCES:
        text, mend = _mend_permission(path)
        return Check("daemon", FAULT, f"{path}: {text}", mend)
    found, mend = _repair_commands.daemon(path, result)
    return Check("daemon", FAULT, f"no daemon listens at {path}: {os.strerror(result)}; {found}",
                 mend)


def _daemon_pid(path: str) -> int:
    """0 where the kernel names another: systemd has made the socket, or a container hides it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        if _where.connect(made, path):
            return 0
        said = made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid = struct.unpack("3i", said)[0]
    try:
        name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return 0
    return pid if name == "gpumemd" else 0


def _peer(path: str) -> str:
    pid = _daemon_pid(path)
    return f", pid {pid}" if pid else ""


def _mend_client(error: _errors.Error) -> str:
    wrong = re.search("GPUMEM_[A-Z_]+", str(error))
    if wrong and wrong.group() in os.environ:
        return f"unset {wrong.group()}"
    if error.result == _errors.VERSION:
        return "install gpumemd and this package from the same version of the sources"
    return "sudo systemctl status gpumemd"


def _check_client() -> Check:
    try:
        _client.connect()
    except _errors.Error as error:
        return Check("client", FAULT, str(error), _mend_client(error))
    return Check("client", OK, "this process has connected")


def _mend_driver(*, is_there: bool) -> str:
    if os.environ.get("GPUMEM_CUDA_LIBRARY"):
        return "unset GPUMEM_CUDA_LIBRARY  # or set it as docs/emulator.md says"
    if is_there:
        return "nvidia-smi  # asks the same driver, and says more of what fails"
    return ("install NVIDIA's driver, which has libcuda.so.1; without a GPU: make play, in "
            "gpumemd's source tree, see docs/emulator.md")


def _daemon() -> int:
    """The daemon's pid; 0 where that cannot be known."""
    path, result = _where.find()
    return 0 if result else _daemon_pid(path)


def _check_driver() -> Iterator[Check]:
    try:
        _driver.load()
    except OSError as error:
        yield Check("driver", FAULT, f"no CUDA driver: {error}. Pinned memory is served alone",
                    _mend_driver(is_there=False))
        return
    try:
        version, names = _driver.devices()
    except (OSError, AttributeError) as error:
        found, mend = _repair_commands.emulator(_daemon()) or ("", _mend_driver(is_there=True))
        yield Check("driver", FAULT, f"CUDA driver: {error}. {found and found + '. '}"
                    "Pinned memory is served alone", mend)
        return
    yield Check("driver", OK, f"{version}, {len(names)} device{'s' if len(names) != 1 else ''}")
    for device, name in enumerate(names):
        yield _check_device(device, name)


def _check_device(device: int, name: str) -> Check:
    try:
        _client.stats(device)
    except _errors.NoDaemon:
        return Check(f"GPU {device}", NOTE, f"{name}: not known without the daemon")
    except _errors.Error as error:
        if error.result != _errors.NO_POOL:
            return Check(f"GPU {device}", FAULT, f"{name}: {error}", _mend_client(error))
        found, mend = _repair_commands.emulator(_daemon()) or (
            "", "gpumemctl devices  # the daemon must see this GPU")
        return Check(f"GPU {device}", FAULT, f"{name}: {error}{found and '. ' + found}", mend)
    return Check(f"GPU {device}", OK, f"{name}: served")


def _is_any_installed() -> bool:
    return any(map(_version_of, _FRAMEWORKS))


def _check_libcuda() -> Iterator[Check]:
    """Each framework's own way to the driver."""
    problem = _repair_commands.libcuda() if _is_any_installed() else None
    if problem is not None:
        yield Check(_driver.NAME, FAULT, *problem)


def _why_not_served(made: list[Check]) -> str | None:
    """What stands against all frameworks."""
    if _notice.is_disabled():
        return "keeps its own allocator: GPUMEM_DISABLE is set"
    gpus = [check for check in made if check.name.startswith("GPU ")]
    others = [check for check in made if check not in gpus]
    if any(check.state == FAULT for check in others) or not any(c.state == OK for c in gpus):
        return "keeps its own allocator until what is above is mended"
    return None


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _check_frameworks(why_not: str | None) -> Iterator[Check]:
    n = 0
    for distribution, (adapter, how) in _FRAMEWORKS.items():
        version = _version_of(distribution)
        if version is None:
            continue
        n += 1
        if why_not is not None:
            yield Check(distribution, NOTE, f"{version}: {why_not}")
            continue
        yield Check(distribution, OK, f"{version}: {how}, by `python -m gpumem run SCRIPT` or "
                    f"gpumem.{adapter}.install()")
    if not n:
        yield Check("frameworks", NOTE, "none of those that gpumem serves is installed for this "
                    "Python")


def _has_locks() -> bool:
    """Whether there is a filelock that the store can use."""
    try:
        major, minor = importlib.metadata.version("filelock").split(".")[:2]
        return (int(major), int(minor)) >= (3, 12)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def _check_kernels() -> Check:
    from .kernels import _command, _settings

    why_off = _settings.why_off()
    if why_off:
        return Check("kernels", NOTE, f"each process compiles its own: {why_off}")
    if _settings.folder() is None:
        return Check("kernels", NOTE, "each process compiles its own: this user has no home, and "
                     "GPUMEM_KERNELS_DIR is not set")
    text = f"{_command.summary()}; see `python -m gpumem kernels`"
    if not _has_locks():
        return Check("kernels", NOTE, f"{text}. Processes that start together compile the same "
                     "kernels: pip install --upgrade filelock")
    return Check("kernels", OK, text)


def _check_torch_extension() -> Iterator[Check]:
    try:
        path = _torch_extension.path()
    except importlib.metadata.PackageNotFoundError:
        return
    if path.exists():
        yield Check("torch extension", OK, str(path))
    else:
        yield Check("torch extension", NOTE, "not built, and not needed for CUDA tensors. It gives "
                    f"{_torch_extension.GIVES}: {_torch_extension.COMMAND}")


def _check_settings() -> Iterator[Check]:
    if _notice.is_disabled():
        yield Check("settings", FAULT, "GPUMEM_DISABLE is set: no framework is served",
                    "unset GPUMEM_DISABLE")


def checks() -> list[Check]:
    """All of them, in the order in which they depend on one another."""
    # Before a driver is loaded, whose name would do for them.
    libcuda = list(_check_libcuda())
    made = [_check_package(), _check_library(), _check_daemon()]
    if all(check.state == OK for check in made):
        made.append(_check_client())
    if made[1].state == OK:
        made += _check_driver()
    made += libcuda
    made += _check_frameworks(_why_not_served(made))
    made.append(_check_kernels())
    made += _check_torch_extension()
    made += _check_settings()
    made.append(Check("nvidia-smi", NOTE, "bills all cached and leased memory to gpumemd, none of "
                      "it to programs; `gpumemctl clients` names each program and its memory"))
    return made


def _print(made: list[Check]) -> None:
    width = max(len(check.name) for check in made)
    for check in made:
        print(f"{check.state:<5}  {check.name:<{width}}  {check.text}")
        if check.mend:
            print(f"{'':<5}  {'':<{width}}  mend: {check.mend}")
    n = sum(check.state == FAULT for check in made)
    print("no faults" if not n else f"{n} fault{'s' if n > 1 else ''}")


def main(arguments: list[str]) -> int:
    """The command."""
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if arguments not in ([], ["--json"]):
        wrong = arguments[1:] if arguments[0] == "--json" else arguments
        print(f'gpumem doctor: invalid "{wrong[0]}" (expected --json); see --help', file=sys.stderr)
        return 2
    made = checks()
    n = sum(check.state == FAULT for check in made)
    if arguments:
        print(json.dumps({"faults": n, "checks": [dataclasses.asdict(c) for c in made]}, indent=1))
    else:
        _print(made)
    return 1 if n else 0
