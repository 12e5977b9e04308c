# SPDX-License-Identifier: Apache-2.0
"""One framework's first kernel, in a process of its own; see kernels.py.

    kernels_child.py FRAMEWORK [--compile-only]

Prints "ready" after all imports. Each line that it reads has it make the kernel ready, and launch it where
there is a GPU: "ok SECONDS COMPILED", or "absent WHY". What the kernel gave is checked after the time was taken.
"""

import os
import sys
import time

COMPILE_ONLY = '--compile-only' in sys.argv
N_TEMPLATES = 60
TARGET = (9, 0)


class Triton:
    """A kernel of Triton's own tutorial size."""

    def __init__(self):
        import triton
        import triton.language as tl

        if not COMPILE_ONLY:
            import torch

            self.torch = torch
            self.x = torch.arange(4096, device='cuda', dtype=torch.float32)
        self.triton, self.compiled = triton, 0

        @triton.jit
        def kernel(x, y, n, block: tl.constexpr):
            at = tl.program_id(0) * block + tl.arange(0, block)
            value = tl.load(x + at, at < n)
            for _ in tl.static_range(32):
                value = tl.exp(tl.sin(value) * 0.5)
            tl.store(y + at, value, at < n)

        kernel.fn.__globals__['tl'] = tl
        self.kernel = kernel
        triton.knobs.compilation.listener = self.note

    def note(self, *, cache_hit, **_):
        self.compiled += not cache_hit

    def first(self):
        if COMPILE_ONLY:
            from triton.backends.compiler import GPUTarget

            source = self.triton.compiler.ASTSource(
                self.kernel, {'x': '*fp32', 'y': '*fp32', 'n': 'i32', 'block': 'constexpr'}, {'block': 256})
            made = self.triton.compile(source, target=GPUTarget('cuda', TARGET[0] * 10 + TARGET[1], 32))
            assert made.asm['cubin'][:4] == b'\x7fELF'
            return
        self.y = self.torch.empty_like(self.x)
        self.kernel[(16,)](self.x, self.y, 4096, 256)
        self.torch.cuda.synchronize()

    def check(self):
        value = self.x.cpu()
        for _ in range(32):
            value = (value.sin() * 0.5).exp()
        assert self.torch.allclose(self.y.cpu(), value, rtol=1e-3)


class Inductor:
    """What torch.compile makes of a few operations: one kernel of Triton's."""

    def __init__(self):
        import torch
        import triton

        self.torch, self.compiled = torch, 0
        self.x = torch.arange(4096, device='cuda', dtype=torch.float32).view(4, 1024) / 4096
        self.function = torch.compile(lambda x: (x.sin() * 2 + x).exp() - x)
        triton.knobs.compilation.listener = self.note

    def note(self, *, cache_hit, **_):
        self.compiled += not cache_hit

    def first(self):
        self.y = self.function(self.x)
        self.torch.cuda.synchronize()

    def check(self):
        x = self.x.cpu()
        assert self.torch.allclose(self.y.cpu(), (x.sin() * 2 + x).exp() - x, rtol=1e-3)


class Cupy:
    """A RawModule of templates."""

    header = ''
    options = {}

    def __init__(self):
        import cupy
        from cupy.cuda import compiler

        self.cupy, self.compiled = cupy, 0
        real = compiler._compile_using_nvrtc_no_warning

        def count(*arguments, **more):
            self.compiled += 1
            return real(*arguments, **more)

        compiler._compile_using_nvrtc_no_warning = count
        self.names = [f'run<{i}>' for i in range(N_TEMPLATES)]
        self.source = (self.header + 'template<int n> __global__ void run(float *x) {\n'
                       '  float v = x[threadIdx.x];\n  for (int i = 0; i <= n; i++) v = sinf(v) * n + cosf(v);\n'
                       '  x[threadIdx.x] = v;\n}\n')
        if COMPILE_ONLY:
            stand_in_for_cupys_device(compiler)
        else:
            self.x = cupy.ones(32, 'f4')
            self.compiled = 0  # that was a kernel of CuPy's own

    def first(self):
        if COMPILE_ONLY:
            from cupy.cuda import compiler

            made = compiler._compile_module_with_cache(self.source, name_expressions=self.names,
                                                       arch=f'{TARGET[0]}{TARGET[1]}')
            assert made.cubin[:4] == b'\x7fELF' and set(made.mapping) == set(self.names)
            return
        module = self.cupy.RawModule(code=self.source, name_expressions=self.names, **self.options)
        module.get_function(self.names[0])((1,), (32,), (self.x,))
        self.cupy.cuda.Device().synchronize()

    def check(self):
        assert abs(float(self.x[0]) - 0.5403023) < 1e-4


def stand_in_for_cupys_device(compiler):
    """What CuPy asks the CUDA runtime, which is not there; and modules that are not loaded."""

    class Module:
        def load(self, cubin):
            self.cubin = bytes(cubin)

        def _set_mapping(self, mapping):
            self.mapping = mapping

    class Function:
        pass

    Function.Module = Module
    compiler.function = Function
    compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (f'-arch=sm_{arch}', 'cubin')


class Jitify(Cupy):
    """The same by Jitify, with a header that it knows."""

    header = '#include <type_traits>\n'
    options = {'jitify': True}


class Numba:
    """A cooperative kernel, cached."""

    def __init__(self):
        import numpy as np
        from numba import cuda
        from numba.cuda import dispatcher, types

        self.cuda, self.types = cuda, types
        if COMPILE_ONLY:
            dispatcher._Kernel.bind = lambda kernel: kernel._codelibrary.get_cubin()
        else:
            self.x = cuda.to_device(np.zeros(64, 'f4'))

        @cuda.jit(cache=True)
        def kernel(x):
            grid = cuda.cg.this_grid()
            at = cuda.grid(1)
            x[at] = at
            grid.sync()
            other = x[(at + 32) % 64]
            grid.sync()
            x[at] += other

        self.kernel = kernel

    @property
    def compiled(self):
        return sum(self.kernel.stats.cache_misses.values())

    def first(self):
        if COMPILE_ONLY:
            made = self.kernel.compile((self.types.float32[::1],))
            assert made.cooperative and made._codelibrary.get_cubin()
            return
        self.kernel[2, 32](self.x)
        self.cuda.synchronize()

    def check(self):
        assert list(self.x.copy_to_host()) == [i + (i + 32) % 64 for i in range(64)]


def main():
    framework = {'triton': Triton, 'cupy': Cupy, 'jitify': Jitify, 'numba': Numba, 'inductor': Inductor}[sys.argv[1]]
    keeper = {'jitify': 'cupy', 'inductor': 'triton'}.get(sys.argv[1], sys.argv[1])
    try:
        if os.environ.get('GPUMEM_KERNELS') != '0':
            import filelock  # noqa: F401
            import gpumem.kernels

            gpumem.kernels.install(keeper)
        work = framework()
    except Exception as problem:
        print(f'absent {type(problem).__name__}: {problem}'.replace('\n', ' '), flush=True)
        return
    print('ready', flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        work.first()
        seconds = time.perf_counter() - began
        if not COMPILE_ONLY:
            work.check()
        print(f'ok {seconds} {work.compiled}', flush=True)


if __name__ == '__main__':
    main()
