# SPDX-License-Identifier: Apache-2.0
"""What vLLM and accelerate ask of torch, asked by stand-ins of a few lines: neither is installed, nor is torch.

Their calls are those of MemorySnapshot, CuMemAllocator and CustomAllreduce in vLLM, and of get_max_memory in accelerate.
"""

import gc
import pathlib
import subprocess
import sys
import tempfile
import unittest

import test_torch
import world

MACHINE = world.World(devices=2, device_bytes='256MiB')
MIB = 1 << 20

OTHER = '''
import sys, gpumem
held = gpumem.empty(64 << 20, device=0)
print("holds", flush=True)
sys.stdin.readline()
'''

CUSTOM_ALL_REDUCE = '''
custom_ar = True

class CustomAllreduce:
    def __init__(self):
        self.disabled = True
        if not custom_ar:
            return
        raise RuntimeError("the process would end at its first cudaIpcGetMemHandle")
'''


class MemorySnapshot:
    """vLLM's: what the device has, and what of it is torch's."""

    def __init__(self, torch, device=0):
        gc.collect()
        torch.cuda.memory.empty_cache()
        stats = torch._C._cuda_memoryStats(device)
        self.torch_peak = stats['allocated_bytes']['all']['peak']
        self.free_memory, self.total_memory = torch.cuda.mem_get_info(device)
        self.cuda_memory = self.total_memory - self.free_memory
        self.torch_memory = stats['reserved_bytes']['all']['current']
        self.non_torch_memory = self.cuda_memory - self.torch_memory


def get_max_memory(torch, n_devices):
    """accelerate's: it maps a model's layers to devices by these."""
    return {device: torch.cuda.mem_get_info(device)[0] for device in range(n_devices)}


def setUpModule():
    world.enter(MACHINE.start())
    cuda = world.Cuda()
    cuda.make_current()
    torch = test_torch.make_torch(cuda)
    torch.cuda.Stream = type('Stream', (test_torch.StreamBase,), {'__new__': test_torch.StreamBase.__new__})
    Stand_ins.torch = sys.modules['torch'] = torch
    import gpumem
    torch.cuda.memory.empty_cache = gpumem.flush
    torch.cuda.cudart = lambda: type('', (), {'cudaMemGetInfo': staticmethod(lambda device: (6 << 30, 8 << 30))})
    import gpumem.torch
    gpumem.torch.install()


def tearDownModule():
    MACHINE.stop()


class Stand_ins(unittest.TestCase):  # noqa: N801
    """Over gpumem.torch, with a stub of torch, after install()."""

    def test_what_is_planned_can_be_had(self):
        import gpumem
        free = get_max_memory(self.torch, 2)
        self.assertEqual(set(free), {0, 1})
        for device in (0, 1):
            self.assertGreater(free[device], 128 * MIB)
            self.assertLessEqual(free[device], 256 * MIB, 'no more than gpumemd may take')
            gpumem.empty(int(free[device] * 0.9), device=device, wait=0).free()

    def test_a_profile(self):
        """vLLM gives its cache what is free, less what a trial run has needed beyond it."""
        import gpumem
        before = MemorySnapshot(self.torch)
        weights = gpumem.empty(32 * MIB, device=0)
        self.torch._C._cuda_resetPeakMemoryStats(0)
        gpumem.empty(48 * MIB, device=0).free()
        after = MemorySnapshot(self.torch)
        self.assertEqual(after.torch_peak, before.torch_memory + 80 * MIB)
        self.assertEqual(after.torch_memory - before.torch_memory, 32 * MIB)
        self.assertEqual(before.free_memory - after.free_memory, 32 * MIB)
        self.assertEqual(after.non_torch_memory, before.non_torch_memory)
        weights.free()

    def test_others_memory_is_not_free(self):
        before = MemorySnapshot(self.torch)
        with subprocess.Popen([sys.executable, '-c', OTHER], env=MACHINE.environment, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            self.assertEqual(other.stdout.readline(), 'holds\n')
            meanwhile = MemorySnapshot(self.torch)
            other.communicate('\n')
        self.assertEqual(before.free_memory - meanwhile.free_memory, 64 * MIB)
        self.assertEqual(meanwhile.non_torch_memory - before.non_torch_memory, 64 * MIB)

    def test_sleep_mode_is_refused(self):
        """CuMemAllocator makes a MemPool with an allocator of vLLM's own."""
        import gpumem
        with self.assertRaisesRegex(gpumem.Unsupported, 'MemPool.*GPUMEM_DISABLE=1'):
            self.torch.cuda.MemPool(test_torch.Allocator(1, 2))

    def custom_all_reduce(self):
        """vLLM's module, imported for the first time; what is said."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder) / 'vllm' / 'distributed' / 'device_communicators'
            place.mkdir(parents=True)
            (place / 'custom_all_reduce.py').write_text(CUSTOM_ALL_REDUCE)
            sys.path.insert(0, folder)
            try:
                import vllm.distributed.device_communicators.custom_all_reduce as module
            finally:
                sys.path.remove(folder)
        return module

    def test_custom_all_reduce_stays_off(self):
        said = test_torch.said(lambda: setattr(self, 'module', self.custom_all_reduce()))
        self.assertTrue(self.module.CustomAllreduce().disabled)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn('custom all-reduce stays off', said)
        from gpumem.torch import _vllm
        self.module.custom_ar = True
        _vllm.install()  # it is there already
        self.assertFalse(self.module.custom_ar)


if __name__ == '__main__':
    unittest.main()
