# SPDX-License-Identifier: Apache-2.0
"""What a caller may give, and what a wrong value is told: its name, the value, and what is possible."""

import math
import unittest

import world

MACHINE = world.World()


def setUpModule():
    world.enter(MACHINE.start())


def tearDownModule():
    MACHINE.stop()


# cuda.core, as far as a Resource uses it.
CUDA_CORE = '''
import sys, types
cuda, core = types.ModuleType("cuda"), types.ModuleType("cuda.core")
class Device:
    def __init__(self, device):
        self.device_id = 0
class Buffer:
    @staticmethod
    def from_handle(pointer, size, mr, stream):
        return pointer, size
core.Buffer, core.Device, core.MemoryResource, core.__version__ = Buffer, Device, object, "1.2.0"
cuda.core = core
sys.modules |= {"cuda": cuda, "cuda.core": core}
import gpumem
import gpumem.cuda_core
class Int64:  # as NumPy's
    def __index__(self):
        return 4096
class Stream:
    def __cuda_stream__(self):
        return 0, 0
resource = gpumem.cuda_core.Resource(0)
pointer, size = resource.allocate(Int64(), stream=Stream())
print(size, gpumem.describe(pointer).requested_bytes)
try:
    resource.allocate(1.5, stream=Stream())
except TypeError:
    print("refused")
'''


class Inputs(unittest.TestCase):
    """Of the package's functions."""

    @classmethod
    def setUpClass(cls):
        import gpumem
        cls.gpumem = gpumem
        world.Cuda().make_current()

    def refuses(self, error, text, call, *arguments, **options):
        with self.assertRaisesRegex(error, text):
            call(*arguments, **options)

    def test_devices(self):
        gpumem = self.gpumem
        with gpumem.empty(10, device='cuda:1') as buffer:
            self.assertEqual((buffer.device, gpumem.describe(buffer).place), (1, 1))
        self.assertEqual(gpumem.stats('cuda:1'), gpumem.stats(1))
        gpumem.reserve(0, 'cuda:0')
        gpumem.set_memory_fraction(1.0, 'cuda:0')
        for wrong in ('cuda', 'cuda:', 'cuda:-1', 'cuda:x', '0', 'x'):
            for call in (lambda wrong=wrong: gpumem.empty(10, device=wrong),
                         lambda wrong=wrong: gpumem.stats(wrong),
                         lambda wrong=wrong: gpumem.set_limit(None, wrong)):
                self.refuses(ValueError, f'the device is {wrong!r}; a number such as 0, or "cuda:0", is needed', call)
        for wrong in (1.5, b'cuda:0', ()):
            self.refuses(TypeError, 'the device is .*; a whole number is needed', gpumem.empty, 10, device=wrong)
        self.refuses(TypeError, "the node is 'cuda:0'; a whole number is needed", gpumem.pinned, 10, node='cuda:0')

    def test_places_that_c_would_cut(self):
        gpumem = self.gpumem
        for call in (lambda: gpumem.stats(2**32), lambda: gpumem.set_limit(12345678, 2**32),
                     lambda: gpumem.reset_peaks(2**32), lambda: gpumem.figures(-5),
                     lambda: gpumem.monitor(1, print, 2**32)):
            self.refuses(ValueError, 'the device is .*; 0 to 2147483647 are possible', call)
        self.refuses(ValueError, 'the node is 4294967296; ', gpumem.stats, 2**32, kind='pinned')
        self.assertIsNone(gpumem.stats(0).limit_bytes)

    def test_places_without_a_pool(self):
        gpumem = self.gpumem
        for call in (lambda: gpumem.stats(9), lambda: gpumem.empty(10, device=9), lambda: gpumem.figures(9),
                     lambda: gpumem.set_limit(None, 9), lambda: gpumem.reset_peaks(9)):
            self.refuses(gpumem.Error, 'no pool for CUDA device 9; it has pools for 0 and 1', call)
        self.refuses(gpumem.Error, 'no pool for NUMA node 9; it has pools for 0', gpumem.stats, 9, kind='pinned')

    def test_sizes_for_cuda_core(self):
        ran = MACHINE.run('-c', CUDA_CORE)
        self.assertEqual((ran.stdout, ran.stderr), ('4096 4096\n' + 'refused\n', ''))

    def test_shapes(self):
        gpumem = self.gpumem
        for wrong in ('x', '12', b'12', 1.5, None):
            self.refuses(TypeError, 'the shape is .*; a whole number, or a tuple of them, is needed',
                         gpumem.empty, wrong)
        self.refuses(TypeError, 'a length is 1.5; a whole number is needed', gpumem.empty, (2, 1.5))
        self.refuses(TypeError, "a length is 'x'; ", gpumem.pinned, ['x'])

    def test_waits(self):
        gpumem = self.gpumem
        gpumem.empty(10, wait=math.inf).free()
        gpumem.empty(10, wait=10**9).free()
        for wrong in ('x', None, ()):
            self.refuses(TypeError, 'the wait is .*; a number of seconds is needed', gpumem.empty, 10, wait=wrong)
        for wrong in (-1, -0.001, math.nan, -math.inf):
            self.refuses(ValueError, 'the wait is .* seconds; 0 or more are possible', gpumem.pinned, 10, wait=wrong)

    def test_times(self):
        gpumem = self.gpumem
        self.refuses(ValueError, 'the period is -1 seconds; 0 or more are possible', gpumem.monitor, -1, print)
        self.refuses(ValueError, 'the period is 0.0001 seconds; 0.001 is the least', gpumem.monitor, 0.0001, print)
        self.refuses(TypeError, "the period is 'x'; ", gpumem.monitor, 'x', print)
        gpumem.monitor(math.inf, print).stop()
        self.refuses(ValueError, 'the time is -1 seconds; 0 or more are possible', gpumem.trim_idle, -1)
        self.refuses(TypeError, 'the time is None; ', gpumem.trim_idle, None)
        self.assertEqual(gpumem.trim_idle(math.inf), 0)

    def test_texts(self):
        gpumem = self.gpumem
        for wrong in (1, None, b'0' * 32):
            self.refuses(TypeError, 'the token is .*; a text is needed', gpumem.attach, wrong)
            self.refuses(TypeError, 'the token is .*; a text is needed', gpumem.unshare, wrong)
            self.refuses(TypeError, 'the tag is .*; a text is needed', gpumem.tag, wrong)
            self.refuses(TypeError, 'the tag is .*; a text is needed', gpumem.tag_stats, wrong)
        self.refuses(ValueError, 'a text without NUL is needed', gpumem.attach, '0' * 32 + '\0more')
        self.refuses(ValueError, 'a text without NUL is needed', gpumem.tag, 'a\0b')
        with gpumem.pinned(10, shareable=True) as buffer:
            self.refuses(TypeError, "keep is 'x'; a number of seconds is needed", gpumem.share, buffer, keep='x')

    def test_fractions(self):
        gpumem = self.gpumem
        self.refuses(TypeError, "the fraction is 'x'; a number from 0 to 1 is needed",
                     gpumem.set_memory_fraction, 'x', 0)

    def test_refusals_speak_python(self):
        gpumem = self.gpumem
        plain = gpumem.empty(5000, device=0)
        self.refuses(gpumem.NotOurs, 'with shareable=True', gpumem.share, plain)
        self.refuses(gpumem.Unsupported, 'allocated with registered=True', gpumem.export_dmabuf, plain)
        gpumem.set_limit(4 << 20, 1)
        self.refuses(gpumem.OutOfMemory, r'raise the limit \(gpumem\.set_limit\)', gpumem.empty, 32 << 20, device=1)
        gpumem.set_limit(None, 1)
        held = gpumem.empty(60 << 20, device=1)
        self.refuses(gpumem.OutOfMemory, 'To do: free memory first', gpumem.empty, 32 << 20, device=1, wait=0)
        del held
        self.assertIn('wait longer (wait=)', str(gpumem._errors.make(-1, 'To do: wait longer (wait_ms)')))


if __name__ == '__main__':
    unittest.main()
