#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles torch_rival.cpp against this machine's PyTorch, and becomes it.

    torch_cpp.py FOLDER    (where the program is put)
    torch_cpp.py --compile FOLDER

Says "none REASON" where that cannot be done: see rival.h. Where GPUMEM_TORCH_RIVAL names a folder, what was
compiled into it before is taken, and nothing is compiled.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = 'torch_rival'
SECONDS_MAX = 110


def give_up(reason):
    print('none', reason, flush=True)
    sys.exit(1)


def find_torch():
    """PyTorch's folder, found without an import, which takes seconds."""
    found = importlib.util.find_spec('torch')
    if not found or not found.origin:
        give_up('not installed')
    return pathlib.Path(found.origin).parent


def find_cuda_headers():
    """Folders with the CUDA runtime's headers: a toolkit, or what pip installs beside PyTorch."""
    nvcc = shutil.which('nvcc')
    homes = [os.environ.get('CUDA_HOME'), '/usr/local/cuda',
             nvcc and pathlib.Path(nvcc).resolve().parent.parent]
    for home in filter(None, homes):
        if pathlib.Path(home, 'include', 'cuda_runtime.h').is_file():
            return [str(pathlib.Path(home, 'include'))]
    return []


def beside(torch):
    """Folders of what pip installs beside PyTorch: (headers, libraries)."""
    nvidia = torch.parent / 'nvidia'
    headers = [str(path) for path in sorted(nvidia.glob('*/include')) if path.is_dir()]
    libraries = [str(path) for path in sorted(nvidia.glob('*/lib')) if path.is_dir()]
    return headers, libraries


def cuda_runtime(folders):
    """The file of the CUDA runtime's library that PyTorch itself loads, or what the linker finds."""
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob('libcudart.so*')):
            return str(path)
    for folder in ('/usr/local/cuda/lib64', '/usr/local/cuda/targets/x86_64-linux/lib'):
        if path := next(iter(sorted(pathlib.Path(folder).glob('libcudart.so*'))), None):
            return str(path)
    return '-lcudart'


def command(torch, target):
    pip_headers, pip_libraries = beside(torch)
    headers = [str(torch / 'include'), str(torch / 'include/torch/csrc/api/include'),
               *(find_cuda_headers() or pip_headers)]
    folders = [str(torch / 'lib'), *pip_libraries]
    return [os.environ.get('CXX', 'g++'), '-std=c++20', '-O2', '-w', '-D_GLIBCXX_USE_CXX11_ABI=1',
            f'-I{HERE.parent.parent}', *(f'-isystem{path}' for path in headers),
            str(HERE / 'torch_rival.cpp'), '-o', str(target),
            *(f'-L{path}' for path in folders), *(f'-Wl,-rpath,{path}' for path in folders),
            '-Wl,--no-as-needed', '-ltorch', '-ltorch_cpu', '-ltorch_cuda', '-lc10_cuda', '-lc10',
            cuda_runtime(pip_libraries), '-pthread',
            # PyTorch's libraries find their own dependencies when they are loaded.
            '-Wl,--unresolved-symbols=ignore-in-shared-libs']


def compiled(folder):
    """Compiles the program into that folder."""
    target = pathlib.Path(folder, PROGRAM)
    unfinished = target.with_suffix('.new')
    torch = find_torch()
    try:
        ran = subprocess.run(command(torch, unfinished), capture_output=True, text=True,
                             timeout=SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        give_up(f'it could not be compiled: {error}')
    if ran.returncode:
        sys.stderr.write(ran.stderr[-4000:])
        errors = [line for line in ran.stderr.splitlines() if 'error' in line] or ['see above']
        give_up(f'it could not be compiled: {errors[0][-70:]}')
    # Renamed when complete, so that no other process runs half a program.
    unfinished.rename(target)
    return target


def main():
    if sys.argv[1] == '--compile':
        compiled(sys.argv[2])
        return
    if folder := os.environ.get('GPUMEM_TORCH_RIVAL'):
        target = pathlib.Path(folder, PROGRAM)
        if not target.exists():
            give_up('it could not be compiled, or not in time')
    else:
        target = compiled(sys.argv[1])
    os.execv(target, [str(target)])


if __name__ == '__main__':
    main()
