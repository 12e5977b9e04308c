# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem torch-extension: builds what torch's plain interface for allocators lacks.

The extension is for one version of torch and of this package. It lies in the user's cache, where
gpumem.torch.install() finds it. Without it CUDA tensors come from gpumemd as well. Nothing here
imports torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap

from . import _errors, _notice

SOURCE = pathlib.Path(__file__).parent / "torch" / "extension" / "extension.cc"
# The headers of the package that it includes.
PARTS = (SOURCE.with_name("allocator.h"), SOURCE.with_name("library.h"))
COMMAND = "python -m gpumem torch-extension"
GIVES = ("torch.OutOfMemoryError, cudnn.benchmark, memory snapshots, MemPool, and tensors sent to "
         "other processes")  # fmt: skip
_WHAT = ("Compiles the optional extension for the torch that is installed, into the user's cache. It "
         f"gives {GIVES}.")  # fmt: skip

USAGE = f"""\
usage: {COMMAND} [--where]

{textwrap.fill(_WHAT, 80)}
Needs a C++ compiler (CXX, c++, g++ or clang++); takes about half a minute.

  --where  prints the file that is loaded, or would be, and builds nothing

exit status: 0 built, 1 not, or the output could not be written; 2 for a wrong
call
"""


def path() -> pathlib.Path:
    """The file for this torch and these sources. PackageNotFoundError: no torch."""
    version = importlib.metadata.version("torch")
    texts = b"".join(part.read_bytes() for part in (SOURCE, *PARTS))
    digest = hashlib.sha256(texts).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "gpumem" / f"torch-{version}-{digest}.so"


def _torch_folder() -> pathlib.Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise _errors.Unsupported("torch is not installed for this Python")
    folder = pathlib.Path(spec.origin).parent
    if not (folder / "lib" / "libc10_cuda.so").exists():
        raise _errors.Unsupported(f"the torch in {folder} is without CUDA: install one with it")
    return folder


def _with(header: str, folders: list[pathlib.Path], mend: str) -> list[pathlib.Path]:
    """Those of the folders that are there, of which one has the header."""
    if not any((folder / header).exists() for folder in folders):
        raise _errors.Unsupported(f"<{header}> is not here: {mend}")
    return [folder for folder in folders if folder.is_dir()]


def _cuda_includes(torch_folder: pathlib.Path) -> list[pathlib.Path]:
    """Those of torch's own wheels first: they are of torch's CUDA. They may lack what is the compiler's."""
    nvidia = torch_folder.parent / "nvidia"
    folders = [*sorted(nvidia.glob("cu[0-9]*/include")), nvidia / "cuda_runtime" / "include"]
    folders += [pathlib.Path(home) / "include"
                for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
    mend = "install the CUDA toolkit's headers, or set CUDA_HOME"
    _with("cuda_runtime_api.h", folders, mend)
    return _with("crt/host_config.h", folders, mend)


def _own_include() -> pathlib.Path:
    package = pathlib.Path(__file__).parent
    folders = [package / "include", package.parents[1] / "include", pathlib.Path("/usr/include")]
    found = _with("gpumem-adapters.h", folders, "install the package libgpumem-client-dev")
    return next(folder for folder in found if (folder / "gpumem-adapters.h").exists())


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CXX", ""))
    found = named or [name for name in ("c++", "g++", "clang++") if shutil.which(name)][:1]
    if not found:
        raise _errors.Unsupported("there is no C++ compiler: sudo apt install g++")
    return found


def command(output: pathlib.Path) -> list[str]:
    """What compiles it. Unsupported where something is missing."""
    torch = _torch_folder()
    include = torch / "include"
    systems = [include, include / "torch" / "csrc" / "api" / "include", *_cuda_includes(torch)]
    words: list[object] = [*_compiler(), "-std=c++17", "-O2", "-fPIC", "-shared",
                           "-fvisibility=hidden", "-I", _own_include()]
    for folder in systems:
        words += ["-isystem", folder]
    words += [SOURCE, "-o", output, "-L", torch / "lib", "-lc10", "-lc10_cuda", "-ltorch_cuda"]
    return [str(word) for word in words]


def build() -> pathlib.Path:
    """Builds it, and gives its file. Unsupported, with the reason, where that cannot be."""
    try:
        made = path()
    except importlib.metadata.PackageNotFoundError:
        raise _errors.Unsupported("torch is not installed for this Python") from None
    made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        output = pathlib.Path(folder) / made.name
        ran = subprocess.run(command(output), capture_output=True, text=True, check=False)
        if ran.returncode:
            said = "\n".join(ran.stderr.splitlines()[:10])
            raise _errors.Unsupported(
                f"the extension cannot be compiled for torch {importlib.metadata.version('torch')}."
                f" CUDA tensors come from gpumemd without it too. The compiler said:\n{said}")
        output.replace(made)
    return made


def _call(function: ctypes._FuncPointer, *arguments: bytes) -> None:
    function.restype = ctypes.c_char_p
    problem = function(*arguments)
    if problem is not None:
        raise _errors.Unsupported(problem.decode(errors="replace"))


def load(library: str) -> ctypes.PyDLL | None:
    """The extension, for functions of that libgpumem-client; None where it is not built. torch is
    imported."""
    try:
        made = path()
    except importlib.metadata.PackageNotFoundError:  # a torch that pip has not installed
        return None
    if not made.exists():
        return None
    try:
        extension = ctypes.PyDLL(str(made))
        _call(extension.gpumem_torch_extension_open, os.fsencode(library))
    except (OSError, AttributeError, _errors.Error) as error:
        _notice.say(f"torch's extension is not used: {error}. `{COMMAND}` builds it again")
        return None
    return extension


def install(extension: ctypes.PyDLL) -> None:
    """Torch's allocator is the extension's from now on."""
    _call(extension.gpumem_torch_extension_install)


def main(arguments: list[str]) -> int:
    """The command."""
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if arguments not in ([], ["--where"]):
        wrong = arguments[1:] if arguments[0] == "--where" else arguments
        print(f'gpumem torch-extension: invalid "{wrong[0]}" (expected --where); see --help',
              file=sys.stderr)
        return 2
    try:
        print(path() if arguments else build())
    except importlib.metadata.PackageNotFoundError:
        print("gpumem torch-extension: torch is not installed for this Python", file=sys.stderr)
        return 1
    except (_errors.Error, OSError) as error:
        print(f"gpumem torch-extension: {error}", file=sys.stderr)
        return 1
    return 0
