# SPDX-License-Identifier: Apache-2.0
"""Kernels of CuPy, numba-cuda and Triton in the store, each in processes of its own.

CuPy and numba-cuda are the real ones, but for the compilers, which are large: what stands in for
them notes each call. Triton is a stand-in, as far as its cache is concerned. The real compilers are
in bench/python/kernels.py --compile-only.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import textwrap
import unittest

import frameworks
import world

MACHINE = world.World(devices=1, device_bytes='256MiB')

CUPY = '''
import os, sys
import cupy
import gpumem.kernels
assert "cupy.cuda.jitify" not in sys.modules
said = gpumem.kernels.install("cupy")
from cupy.cuda import compiler

class Module:
    mapping = None
    def load(self, cubin):
        self.cubin = cubin
    def _set_mapping(self, mapping):
        self.mapping = mapping

class Function:
    pass

Function.Module = Module
compiler.function = Function
compiler._get_nvrtc_version = lambda: (13, 0)
compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (f"-arch=sm_{arch}", "cubin")
compiler._preprocess = lambda *rest: "// a compiler"
compiled, prepared = [], []

def compile(source, options, arch, name, name_expressions, log, in_memory, jitify, method):
    if "#error" in source:
        raise compiler.CompileException("#error", source, name, options)
    if jitify:
        prepared.append(source)
    compiled.append(source)
    mapping = {one: f"mangled {one}" for one in name_expressions} if name_expressions else None
    return b"cubin of " + source.encode(), mapping

compiler._compile_using_nvrtc_no_warning = compile

def need(source, options=(), **more):
    """(what was loaded, was it compiled here)"""
    before = len(compiled)
    module = compiler._compile_module_with_cache(source, tuple(options), arch="90", **more)
    assert module.cubin == b"cubin of " + source.encode(), module.cubin
    return module, len(compiled) > before

ADD = 'extern "C" __global__ void __launch_bounds__(64) add(float *x) { x[0] += 1; }'
here = os.environ.get("HEADERS", "/nowhere")
'''

NUMBA = '''
import os, sys
from numba import cuda
import gpumem.kernels
said = gpumem.kernels.install("numba")
from numba.cuda import dispatcher, types
from numba.cuda.codegen import CUDACodeLibrary
from numba.cuda.core import sigutils
from numba.cuda.cudadrv import runtime
from numba.cuda.typing import signature
compiled = []

def compile(self, py_func, argtypes, **options):
    """As _Kernel.__init__ leaves a kernel: a cooperative one, if its name says so."""
    compiled.append(py_func.__name__)
    self.cooperative = self_cooperative = "cooperative" in py_func.__name__
    self.objectmode, self.entry_point, self.py_func = False, None, py_func
    self.entry_name, self.signature = py_func.__name__, signature(types.void, *argtypes)
    self.debug = self.lineinfo = False
    self.call_helper, self.extensions, self.shared_memory_carveout = None, [], None
    self.launch_config_sensitive = "sensitive" in py_func.__name__
    self.target_context = dispatcher.CUDADispatcher.targetdescr.target_context
    code = CUDACodeLibrary(None, py_func.__name__, entry_name=py_func.__name__)
    code._finalized, code._llvm_strs = True, ["ir"]
    code.use_cooperative = code.needs_cudadevrt = self_cooperative
    code._cubin_cache[code._ensure_cc(None)] = b"cubin of " + py_func.__name__.encode()
    self._codelibrary = code

def link(*rest):
    raise AssertionError("a kernel that was kept is linked again")

runtime.runtime.get_version = lambda: (13, 0)
dispatcher._Kernel.__init__ = compile
dispatcher._Kernel.bind = lambda self: self._codelibrary.get_cubin()
CUDACodeLibrary._link_all = link

def need(function, argtypes=(types.float32[::1],)):
    """Was it compiled here?"""
    before = len(compiled)
    kernel = function.compile(argtypes)
    name = function.py_func.__name__
    assert kernel._codelibrary.get_cubin() == b"cubin of " + name.encode()
    assert kernel.cooperative == kernel._codelibrary.use_cooperative == ("cooperative" in name)
    return len(compiled) > before
'''

# The parts of Triton that a cache manager meets.
TRITON = {
    '__init__.py': '__version__ = "0.stand-in"\nfrom . import knobs\nfrom .runtime import cache\n',
    'knobs.py': 'class cache:\n    manager_class = None\n',
    'runtime/__init__.py': '',
    'runtime/cache.py': '''
        import json, os
        class CacheManager:
            pass
        class FileCacheManager(CacheManager):
            def __init__(self, key, override=False, dump=False):
                self.key = key
                self.cache_dir = os.path.join(os.environ["TRITON_CACHE_DIR"], key)
                os.makedirs(self.cache_dir, exist_ok=True)
            def _make_path(self, name):
                return os.path.join(self.cache_dir, name)
            def has_file(self, name):
                return os.path.exists(self._make_path(name))
            def get_file(self, name):
                return self._make_path(name) if self.has_file(name) else None
            def get_group(self, name):
                if not self.has_file(f"__grp__{name}"):
                    return None
                with open(self._make_path(f"__grp__{name}")) as file:
                    return json.load(file)["child_paths"]
            def put(self, data, name, binary=True):
                data = data if isinstance(data, bytes) else str(data).encode()
                with open(self._make_path(name), "wb") as file:
                    file.write(data)
                return self._make_path(name)
            def put_group(self, name, group):
                return self.put(json.dumps({"child_paths": group}), f"__grp__{name}", binary=False)
    ''',
    # Its compile(), as far as the cache is concerned.
    'compiler.py': '''
        import json
        from . import knobs
        from .runtime import cache
        compiled = []
        class Bad(Exception):
            pass
        def compile(name, key, bad=False):
            manager = (knobs.cache.manager_class or cache.FileCacheManager)(key)
            group = manager.get_group(f"{name}.json") or {}
            if f"{name}.json" not in group:
                compiled.append(name)
                group[f"{name}.ttir"] = manager.put("text of " + name, f"{name}.ttir")
                if bad:
                    raise Bad
                group[f"{name}.cubin"] = manager.put(b"\\x7fELF " + name.encode(), f"{name}.cubin")
                about = {"target": {"backend": "cuda", "arch": 90}}
                group[f"{name}.json"] = manager.put(json.dumps(about), f"{name}.json", binary=False)
                manager.put_group(f"{name}.json", group)
            result = {}
            for file, path in group.items():
                with open(path, "rb") as opened:
                    result[file] = opened.read()
            assert result[f"{name}.cubin"] == b"\\x7fELF " + name.encode(), result
            return result
    ''',
}


def setUpModule():
    frameworks.python()
    MACHINE.start()


def tearDownModule():
    MACHINE.stop()


class Framework(unittest.TestCase):
    """Programs that begin with a text of the class's, and a store for each test."""

    prelude = ''

    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(dir=MACHINE.folder))
        self.addCleanup(shutil.rmtree, self.place)
        self.environment = MACHINE.with_driver() | {
            'GPUMEM_KERNELS': '1', 'GPUMEM_KERNELS_DIR': str(self.place / 'store'),
            'CUPY_CACHE_DIR': str(self.place / 'cupy'), 'TRITON_CACHE_DIR': str(self.place / 'own'),
            'HEADERS': str(self.place / 'headers'),
            'PYTHONPATH': f'{world.PACKAGE_FOLDER}{os.pathsep}{self.place}'}

    def entries(self):
        folder = self.place / 'store' / 'entries'
        return list(folder.iterdir()) if folder.exists() else []

    def run_program(self, text, file='program.py', **more):
        path = self.place / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(self.prelude + textwrap.dedent(text))
        ran = MACHINE.run('-W', 'ignore', path, python=frameworks.python(),
                          environment=self.environment | more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran

    def says(self, text, expected, **more):
        ran = self.run_program(text, **more)
        self.assertEqual(ran.stdout.split(), expected.split(), ran.stderr)


class Cupy(Framework):
    prelude = CUPY

    def test_kernels_and_templates(self):
        text = '''
            a, first = need(ADD)
            b, second = need(ADD, name_expressions=["f<int>", "f<long, int>"])
            assert b.mapping == {one: f"mangled {one}" for one in ("f<int>", "f<long, int>")}
            print(first, second, need(ADD, ["-DX"])[1], need(ADD, extra_source="x")[1], need(ADD)[1])
        '''
        self.says(text, 'True True True True False')
        self.says(text, 'False False False False False')
        self.assertEqual(list((self.place / 'cupy').iterdir()), [])
        listed = MACHINE.run('-m', 'gpumem', 'kernels', environment=self.environment).stdout
        self.assertIn('cupy       14.2.0   add ', listed)
        self.assertIn('sm_90', listed)

    def test_jitify_is_made_ready_when_it_is_needed(self):
        text = '''
            print(need(ADD, jitify=True)[1], len(prepared), "cupy.cuda.jitify" in sys.modules)
        '''
        self.says(text, 'True 1 False')
        self.says(text, 'False 0 False')

    def test_headers_by_content(self):
        text = '''
            print(need('#include "own.h"\\n' + ADD, ["-I" + here])[1])
        '''
        headers, moved = self.place / 'headers', self.place / 'moved'
        headers.mkdir()
        (headers / 'own.h').write_text('#include "deep.h"\n')
        (headers / 'deep.h').write_text('#define DEEP 1\n')
        self.says(text, 'True')
        shutil.copytree(headers, moved)
        self.says(text, 'False', HEADERS=str(moved))
        (moved / 'deep.h').write_text('#define DEEP 2\n')
        self.says(text, 'True', HEADERS=str(moved))
        self.says(text, 'False')

    def test_what_cannot_be_known_is_left_to_cupy(self):
        self.says('''
            source = '#define NAME "own.h"\\n#include NAME\\n' + ADD
            print(need(source)[1], need(source)[1])
        ''', 'True False')
        self.assertEqual(self.entries(), [])
        self.assertEqual(len(list((self.place / 'cupy').glob('*.cubin'))), 1)

    def test_headers_of_cupys_own(self):
        text = '''
            from cupy._core import core
            folder = core._get_header_dir_path()
            print(need("#include <cupy/complex.cuh>\\n" + ADD, ["-I" + folder])[1],
                  need("#include <cupy/complex.cuh>\\n" + ADD, ["-I" + folder, "-I" + here])[1])
        '''
        self.says(text, 'True False')
        (self.place / 'headers' / 'cupy').mkdir(parents=True)
        (self.place / 'headers' / 'cupy' / 'complex.cuh').write_text('')
        self.says('''
            from cupy._core import core
            print(need("#include <cupy/complex.cuh>\\n" + ADD,
                       ["-I" + here, "-I" + core._get_header_dir_path()])[1])
        ''', 'True')

    def test_a_compiler_that_fails(self):
        self.says('''
            from gpumem.kernels import _flight
            try:
                need("#error")
            except compiler.CompileException as error:
                print(type(error).__name__, _flight._holder, need(ADD)[1])
        ''', 'CompileException None True')

    def test_a_damaged_kernel(self):
        self.says('print(need(ADD)[1])', 'True')
        [path] = self.entries()
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 4]))
        ran = self.run_program('print(need(ADD)[1])')
        self.assertEqual(ran.stdout, 'True\n')
        self.assertIn('is damaged (cubin)', ran.stderr)
        self.says('print(need(ADD)[1])', 'False')

    def test_a_version_that_was_not_tested(self):
        self.prelude = 'import cupy\ncupy.__version__ = "13.6.0"\n' + CUPY
        ran = self.run_program('print(need(ADD)[1], need(ADD)[1], said)')
        self.assertEqual(ran.stdout, 'True False nothing\n')
        self.assertEqual(ran.stderr.count('CuPy 13.6.0 keeps its own kernel cache: tested is 14.2.0'), 1)
        self.assertEqual(self.entries(), [])

    def test_switched_off(self):
        self.says('print(need(ADD)[1], need(ADD)[1])', 'True False', GPUMEM_KERNELS='0')
        self.assertEqual(self.entries(), [])

    def test_install_of_its_memory_switches_them_on(self):
        self.prelude = ''
        ran = self.run_program('''
            import cupy
            import gpumem.cupy
            gpumem.cupy.install()
            print(hasattr(cupy.cuda.compiler._compile_with_cache_cuda, "_gpumem_original"))
        ''')
        self.assertEqual(ran.stdout, 'True\n', ran.stderr)

    def test_run_without_a_daemon(self):
        """The program's, and that of a Python that it starts."""
        (self.place / 'look.py').write_text(textwrap.dedent('''
            import subprocess, sys
            import cupy
            print(hasattr(cupy.cuda.compiler._compile_with_cache_cuda, "_gpumem_original"),
                  type(cupy.get_default_memory_pool()).__name__, flush=True)
            if len(sys.argv) > 1:
                subprocess.run([sys.executable, __file__])
        '''))
        ran = MACHINE.run('-m', 'gpumem', 'run', self.place / 'look.py', 'again',
                          python=frameworks.python(), environment=self.environment | {
                              'GPUMEM_SOCKET': '/nowhere/gpumemd.sock', 'GPUMEM_VERBOSE': '1'})
        self.assertEqual(ran.stdout, 'True MemoryPool\n' * 2, ran.stderr)
        self.assertEqual(ran.stderr.count('frameworks keep their own allocators'), 1)
        self.assertEqual(ran.stderr.count(f'gpumem: cupy: kernels are kept in {self.place}/store'), 2)


class Numba(Framework):
    prelude = NUMBA

    KERNELS = '''
        FACTOR = 2.5
        x = object()  # as a name of an attribute below: no global of the kernel's
        @cuda.jit(device=True)
        def helper(value):
            return value * FACTOR
        @cuda.jit(cache=True)
        def cooperative(array):
            grid = cuda.cg.this_grid()
            array[cuda.threadIdx.x] = helper(array[cuda.threadIdx.x])
            grid.sync()
'''

    def test_a_cooperative_kernel_whatever_ran_before(self):
        self.says(self.KERNELS + '        print(need(cooperative))', 'True')
        for before in ('pass', 'cuda.device_array(10)',
                       '@cuda.jit\n        def other(array):\n            array[0] = 1\n'
                       '        need(other)'):
            self.says(f'{self.KERNELS}        {before}\n        print(need(cooperative))', 'False')

    def test_a_key_is_what_the_kernel_means(self):
        """Each variant is compiled once, in whatever file and line it stands."""
        variants = [self.KERNELS] + [self.KERNELS.replace(old, new) for old, new in (
            ('2.5', '3.5'), ('value * FACTOR', 'value + FACTOR'), ('grid.sync()', 'pass'),
            ('cache=True', 'cache=True, fastmath=True'))]
        helpers = """
            from numba import cuda
            @cuda.jit(device=True)
            def scale(v):
                return v * 2
            @cuda.jit(device=True)
            def shift(v):
                return v + 1
        """
        user = """
            from helpers import scale
            @cuda.jit(cache=True)
            def cooperative(array):
                array[0] = scale(helpers.shift(array[0]))
        """
        modules = [helpers, helpers.replace('v * 2', 'v * 3'), helpers.replace('v + 1', 'v + 2')]
        text = f'''
            import textwrap, types as python_types
            def needed(text, **more):
                names = {{"cuda": cuda}} | more
                exec(textwrap.dedent(text), names)
                return [need(names["cooperative"]), need(names["cooperative"], (types.float64[::1],))]
            said = [one for text in {variants!r} for one in needed(text)]
            for text in {modules!r}:
                helpers = sys.modules["helpers"] = python_types.ModuleType("helpers")
                exec(textwrap.dedent(text), vars(helpers))
                said += needed({user!r}, helpers=helpers)
            print(set(said), len(said))
        '''
        self.says(text, '{True} 16')
        self.says('\n\n# lines more\n' + textwrap.dedent(text), '{False} 16', file='elsewhere/a.py')
        self.assertEqual(len(self.entries()), 16)

    def test_a_global_that_changes_between_two_compilations(self):
        text = '''
            FACTOR = {first}
            @cuda.jit(cache=True)
            def kernel(array):
                array[0] = FACTOR
            said = [need(kernel)]
            FACTOR = 2
            said.append(need(kernel, (types.float64[::1],)))
            FACTOR = {last}
            kernel.recompile()
            print(said, compiled.count("kernel"))
        '''
        self.says(text.format(first=1, last=3), '[True, True] 4')
        # Both signatures are known for 2 and for 3 by now: one of the first's, none of recompile()'s.
        self.says(text.format(first=2, last=3), '[True, False] 1')

    def test_a_device_function_that_was_compiled_before_its_global_changed(self):
        self.says(self.KERNELS + '''
        def compile_device(self, args, return_type=None):
            self.overloads[args] = "code"
        from gpumem.kernels import numba as ours
        ours._wrap_device(compile_device)(helper, (types.float32,))
        print(need(cooperative), ours._meaning(helper) == helper._gpumem_meaning)
        FACTOR = 9.5
        print(need(cooperative, (types.float64[::1],)), ours._meaning(helper) == helper._gpumem_meaning)
        ''', 'True True True False')
        self.assertEqual(len(self.entries()), 1)

    def test_what_cannot_be_told_is_left_to_numba(self):
        text = '''
            class Odd:
                pass
            odd = Odd()
            @cuda.jit(cache=True)
            def kernel(array):
                array[0] = odd
            print(need(kernel), type(kernel._cache).__module__)
        '''
        self.says(text, 'True numba.cuda.dispatcher', NUMBA_CACHE_DIR=str(self.place / 'numba'))
        self.assertEqual(len(list((self.place / 'numba').glob('*/*.nbi'))), 1)
        self.assertEqual(self.entries(), [])

    def test_without_cache_nothing_is_kept(self):
        self.says('''
            @cuda.jit
            def kernel(array):
                array[0] = 1
            print(need(kernel))
        ''', 'True')
        self.assertEqual(self.entries(), [])

    def test_marks_of_kernels_that_depend_on_their_launch(self):
        self.says('''
            def new():
                @cuda.jit(cache=True)
                def kernel(array):
                    array[0] = 1
                return kernel._cache
            first = new()
            print(first.is_launch_config_sensitive(), first.mark_launch_config_sensitive(),
                  first.is_launch_config_sensitive(), new().is_launch_config_sensitive())
        ''', 'False True True True')

    def test_a_compiler_that_fails(self):
        self.says(self.KERNELS + '''
        from gpumem.kernels import _flight
        def fail(self, *rest, **more):
            raise ValueError("it fails")
        real, dispatcher._Kernel.__init__ = dispatcher._Kernel.__init__, fail
        try:
            need(cooperative)
        except ValueError as error:
            print(_flight._holder)
        dispatcher._Kernel.__init__ = real
        print(need(cooperative))
        ''', 'None True')

    def test_a_kernel_that_cannot_be_loaded(self):
        self.says(self.KERNELS + '        print(need(cooperative))', 'True')
        [path] = self.entries()
        from gpumem.kernels import _store
        data = path.read_bytes()
        entry = _store.decode(path.name, len(data), lambda n, at: data[at:at + n])
        path.write_bytes(_store.encode(path.name, entry.about, {'kernel': b'no pickle'}))
        ran = self.run_program(self.KERNELS + '        print(need(cooperative))')
        self.assertEqual(ran.stdout, 'True\n')
        self.assertIn('kernel cooperative cannot be loaded', ran.stderr)


class Triton(Framework):
    prelude = ('import gpumem.kernels\nsaid = gpumem.kernels.install("triton")\n'
               'from triton.compiler import compile, compiled, Bad\n')

    def setUp(self):
        super().setUp()
        for name, text in TRITON.items():
            path = self.place / 'triton' / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        self.own = self.place / 'own' / 'KEY'

    def test_a_kernel(self):
        text = 'compile("add", "KEY"), compile("add", "KEY"), compile("add", "OTHER")\n' \
               'print(len(compiled))\n'
        self.says(text, '2')
        shutil.rmtree(self.place / 'own')
        self.says(text, '0')
        self.assertEqual({path.name for path in self.own.iterdir()},
                         {'add.ttir', 'add.cubin', 'add.json', '__grp__add.json'})
        listed = MACHINE.run('-m', 'gpumem', 'kernels', environment=self.environment).stdout
        self.assertRegex(listed, r'triton +0\.stand-in +add +sm_90 ')

    def test_what_lies_in_tritons_folder_is_not_believed(self):
        self.says('compile("add", "KEY")', '')
        (self.own / 'add.cubin').write_bytes(b'\x7fELF adm')
        self.says('compile("add", "KEY")\nprint(len(compiled))', '0')  # it asserts what is loaded
        self.assertEqual((self.own / 'add.cubin').read_bytes(), b'\x7fELF add')
        for path in self.entries():
            path.unlink()
        (self.own / 'add.cubin').write_bytes(b'\x7fELF adm')
        self.says('compile("add", "KEY")\nprint(len(compiled))', '1')

    def test_a_compiler_that_fails(self):
        self.says('''
            from gpumem.kernels import _flight
            try:
                compile("add", "KEY", bad=True)
            except Bad as error:
                kept = error  # and with it the frame, and the manager in it
            compile("other", "OTHER")
            print(_flight._holder, len(compiled))
        ''', 'None 2')
        self.says('compile("add", "KEY")\nprint(len(compiled))', '1')

    def test_another_manager_is_not_replaced(self):
        ran = self.run_program('''
            import os
            import triton
            print(triton.knobs.cache.manager_class)
        ''', TRITON_CACHE_MANAGER='theirs:Manager')
        self.assertEqual(ran.stdout, 'None\n')
        self.assertIn('triton keeps its own kernel cache: TRITON_CACHE_MANAGER=theirs:Manager', ran.stderr)

    def test_switched_off(self):
        self.says('compile("add", "KEY"), compile("add", "KEY")\nprint(len(compiled), said)',
                  '1 nothing: GPUMEM_KERNELS=0', GPUMEM_KERNELS='0')
        self.assertEqual(self.entries(), [])

    def test_run_switches_it_on(self):
        (self.place / 'look.py').write_text('import triton\nprint(triton.knobs.cache.manager_class)\n')
        ran = MACHINE.run('-m', 'gpumem', 'run', self.place / 'look.py',
                          environment=self.environment)
        self.assertEqual(ran.stdout, "<class 'gpumem.kernels.triton.Manager'>\n", ran.stderr)


if __name__ == '__main__':
    unittest.main()
