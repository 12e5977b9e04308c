# SPDX-License-Identifier: Apache-2.0
"""Builds libgpumem-client with meson and puts it into the package.

The sources of C are the project's, in the folder above, or in an sdist its folder native/. A wheel
is for every Python 3 (py3-none) and for the platform that the library's own symbols name.
"""

import importlib.metadata
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
NATIVE = HERE / "native"
SOURCES = NATIVE if NATIVE.exists() else HERE.parent
LIBRARY = "libgpumem-client.so.0"
# With which torch's extension is compiled.
HEADERS = ("gpumem.h", "gpumem-statistics.h", "gpumem-adapters.h", "gpumem-errors.def")

# Of an sdist: what meson reads with -Dclient_only=true.
SOURCE_FOLDERS = ("base", "client", "driver", "include", "proto")
SOURCE_FILES = ("LICENSE", "meson.build", "meson_options.txt")
HEADER = "uthash.h"

# What manylinux promises on every machine, of what a C library may need.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}


def run(*command, **options):
    """Runs a command whose failure ends the build."""
    subprocess.run([str(word) for word in command], check=True, **options)


def ask(*command):
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cuda_folder():
    """The folder above include/cuda.h: CUDA_HOME, the toolkit's, or nvidia-cuda-runtime's."""
    places = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    try:
        files = importlib.metadata.files("nvidia-cuda-runtime") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places += [file.locate().parent.parent for file in files if file.name == "cuda.h"]
    for place in filter(None, places):
        if (pathlib.Path(place) / "include" / "cuda.h").exists():
            return place
    raise SystemExit("gpumem: <cuda.h> is not here: install nvidia-cuda-runtime, or set CUDA_HOME")


def environment():
    """For meson: where headers are that this machine's compiler does not find."""
    made = os.environ | {"CUDA_HOME": str(cuda_folder())}
    if (NATIVE / HEADER).exists():
        made["CPPFLAGS"] = f"{os.environ.get('CPPFLAGS', '')} -isystem {NATIVE}".strip()
    return made


def packages_missing(made):
    """Debian's packages of what the build needs, pip does not bring, and this machine lacks."""
    compiler = shlex.split(made.get("CC", "")) or [
        next(filter(shutil.which, ("cc", "gcc", "clang")), "cc")]
    if shutil.which(compiler[0]) is None:
        yield "gcc"
        yield from ("libc6-dev", "uthash-dev")  # which cannot be looked for then
    else:
        command = [*compiler, *shlex.split(made.get("CPPFLAGS", "")), "-E", "-x", "c", "-"]
        for header, package in (("stdio.h", "libc6-dev"), (HEADER, "uthash-dev")):
            if subprocess.run(command, input=f"#include <{header}>\n", text=True,
                              capture_output=True, env=made, check=False).returncode:
                yield package
    if shutil.which("readelf") is None:
        yield "binutils"


def check_machine(made):
    """Ends the build with one line where it cannot succeed."""
    packages = " ".join(packages_missing(made))
    if packages:
        raise SystemExit("gpumem: libgpumem-client cannot be built, since packages are missing: "
                         f"sudo apt install {packages}")


def meson():
    """The command: the one that is installed beside this Python, or the machine's."""
    try:
        importlib.metadata.version("meson")
    except importlib.metadata.PackageNotFoundError:
        return ["meson"]
    return [sys.executable, "-m", "mesonbuild.mesonmain"]


def build_library(folder):
    """Builds the library in `folder`; gives its file."""
    folder = pathlib.Path(folder).resolve()
    # One of an earlier build names a meson of pip's, which is gone.
    shutil.rmtree(folder, ignore_errors=True)
    made = environment()
    check_machine(made)
    options = ("client_only=true", "werror=false", "debug=false", "optimization=2")
    run(*meson(), "setup", folder, SOURCES, *("-D" + option for option in options),
        env=made)
    target = next(line.split(":")[0] for line in ask("ninja", "-C", str(folder), "-t", "targets",
                                                     "all").splitlines()
                  if re.match(r"client/libgpumem-client\.so\.[0-9.]+:", line))
    run("ninja", "-C", folder, target)
    return folder / target


def platform_tag(library):
    """manylinux_2_N_MACHINE, by the newest symbol of glibc that the library needs.

    linux_MACHINE, for this machine only, if it needs another library."""
    machine = os.uname().machine
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", ask("readelf", "--dynamic", str(library))))
    if not {name for name in needed if not name.startswith("ld-linux")} <= SYSTEM_LIBRARIES:
        return f"linux_{machine}"
    versions = re.findall(r"GLIBC_2\.([0-9]+)", ask("readelf", "--version-info", str(library)))
    return f"manylinux_2_{max(map(int, versions))}_{machine}"


class BuildWithLibrary(build_py):
    """Copies the library into the package, of the build, or of the tree (pip install -e)."""

    def run(self):
        super().run()
        folder = pathlib.Path(self.get_finalized_command("build").build_temp)
        self.library_file = build_library(folder / "native")
        package = HERE / "gpumem" if self.editable_mode else pathlib.Path(self.build_lib) / "gpumem"
        (package / "lib").mkdir(exist_ok=True)
        shutil.copy(self.library_file, package / "lib" / LIBRARY)
        (package / "include").mkdir(exist_ok=True)
        for header in HEADERS:
            shutil.copy(SOURCES / "include" / header, package / "include" / header)


class PlatformWheel(bdist_wheel):
    """py3-none-PLATFORM: there is no extension module."""

    def get_tag(self):
        library = pathlib.Path(self.bdist_dir or "") / "gpumem" / "lib" / LIBRARY
        if not library.exists():
            library = self.get_finalized_command("build_py").library_file
        return "py3", "none", platform_tag(library)


class SourcesWithNative(sdist):
    """Puts the C sources into native/, and the one header of others that they include."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        native = pathlib.Path(base_dir) / NATIVE.name
        native.mkdir()
        for name in SOURCE_FOLDERS:
            shutil.copytree(SOURCES / name, native / name)
        for name in SOURCE_FILES:
            shutil.copy(SOURCES / name, native / name)
        licence = pathlib.Path(base_dir) / "LICENSE"
        licence.unlink(missing_ok=True)
        shutil.copy(SOURCES / "LICENSE", licence)
        header = next((folder / HEADER for folder in (NATIVE, pathlib.Path("/usr/include"))
                       if (folder / HEADER).exists()), None)
        if header is None:
            raise SystemExit(f"gpumem: {HEADER} is not here: install uthash-dev")
        shutil.copy(header, native / HEADER)


class WithLibrary(Distribution):
    """Not pure: it goes where platforms' packages go."""

    def has_ext_modules(self):
        return True


setup(
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel,
              "sdist": SourcesWithNative},
)
