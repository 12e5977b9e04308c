# SPDX-License-Identifier: Apache-2.0
"""Memory of this process: shapes and types, whose it is, what it costs, and what is refused."""

import ctypes
import gc
import os
import threading
import unittest

import world

MACHINE = world.World()


def setUpModule():
    world.enter(MACHINE.start())


def tearDownModule():
    MACHINE.stop()


class Numbers(unittest.TestCase):
    """What needs no daemon."""

    def test_types_by_name(self):
        from gpumem import _dtypes
        for text, size, typestr in (('float32', 4, '<f4'), ('<f8', 8, '<f8'), ('u1', 1, '|u1'),
                                    ('bool', 1, '|b1'), ('complex64', 8, '<c8'),
                                    ('bfloat16', 2, None), ('float8_e4m3fn', 1, None)):
            dtype = _dtypes.parse(text)
            self.assertEqual((dtype.itemsize, dtype.typestr), (size, typestr), text)
            self.assertEqual(_dtypes.of_code(dtype.code, dtype.bits), dtype)

    def test_types_by_object(self):
        from gpumem import _dtypes

        class TorchType:
            def __str__(self):
                return 'torch.bfloat16'
        self.assertEqual(_dtypes.parse(float).name, 'float64')
        self.assertEqual(_dtypes.parse(int).name, 'int64')
        self.assertEqual(_dtypes.parse(TorchType()).name, 'bfloat16')

    def test_types_that_are_none(self):
        from gpumem import _dtypes
        for text in ('float31', '>f4', 'object', 'f3', ''):
            with self.assertRaises(TypeError, msg=text):
                _dtypes.parse(text)

    def test_streams_of_any_framework(self):
        from gpumem import _streams

        class Protocol:
            def __cuda_stream__(self):
                return 0, 77

        class Torch:
            cuda_stream = 5
        self.assertEqual([_streams.handle(stream) for stream in (None, 1, 2, Protocol(), Torch())],
                         [0, 0, 2, 77, 5])
        with self.assertRaises(TypeError):
            _streams.handle('default')

    def test_oom_is_a_memory_error(self):
        import gpumem
        self.assertTrue(issubclass(gpumem.OutOfMemory, MemoryError))
        self.assertTrue(issubclass(gpumem.OutOfMemory, gpumem.Error))


class Buffers(unittest.TestCase):
    """Device and pinned memory."""

    @classmethod
    def setUpClass(cls):
        import gpumem
        cls.gpumem = gpumem
        cls.cuda = world.Cuda()

    def setUp(self):
        self.cuda.make_current()

    def requested(self, kind='device', place=0):
        gc.collect()
        return self.gpumem.stats(place, kind=kind).requested_bytes

    def test_device_memory_is_the_programs(self):
        stream = self.cuda.stream()
        buffer = self.gpumem.empty((8, 125), stream=stream)
        self.cuda.fill(buffer.pointer, 7, buffer.nbytes, stream)
        self.assertEqual(self.cuda.read(buffer.pointer, 1000), b'\7' * 1000)
        self.assertEqual(buffer.__cuda_array_interface__, {
            'shape': (8, 125), 'typestr': '|u1', 'data': (buffer.pointer, False),
            'strides': None, 'version': 3, 'stream': stream})
        self.assertEqual(len(buffer), 8)

    def test_memory_ends_with_its_buffer(self):
        before = self.requested()
        buffer = self.gpumem.empty(1000, 'f4')
        self.assertEqual(self.requested(), before + 4000)
        view = buffer.view((10, 10), 'f8')
        del buffer
        self.assertEqual(self.requested(), before + 4000)
        del view
        self.assertEqual(self.requested(), before)

    def test_free_is_once(self):
        before = self.requested()
        with self.gpumem.empty(1000) as buffer:
            buffer.free()
            other = self.gpumem.empty(1000)  # at the same address
        self.assertEqual(self.requested(), before + 1000)
        self.assertEqual((buffer.pointer, buffer.nbytes), (0, 0))
        del other

    def test_nothing_is_no_allocation(self):
        before = self.gpumem.stats(0)
        buffer = self.gpumem.empty((0, 5), 'f4')
        self.assertEqual((buffer.pointer, buffer.nbytes, buffer.shape), (0, 0, (0, 5)))
        del buffer
        self.assertEqual(self.gpumem.stats(0), before)

    def test_a_device_by_its_number(self):
        buffer = self.gpumem.empty(1000, device=1)
        self.assertEqual((buffer.device, self.gpumem.describe(buffer).place), (1, 1))

    def test_no_context_is_needed(self):
        made = []

        def work():
            buffer = self.gpumem.empty(1000, device=1)
            made.append(buffer.device)
            del buffer
            made.append(self.gpumem.empty(1000).device)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(made, [1, 0])

    def test_a_free_without_context_or_stream(self):
        before = self.requested()
        stream = self.cuda.stream()
        buffers = [self.gpumem.empty(1000, stream=stream), self.gpumem.pinned(1000),
                   self.gpumem.empty(1000, shareable=True)]
        buffers[0].__dlpack__(stream=stream)
        self.cuda.call('cuStreamSynchronize', world.ctypes.c_void_p(stream))
        self.cuda.destroy(stream)
        thread = threading.Thread(target=buffers.clear)
        thread.start()
        thread.join()
        self.assertEqual(self.requested(), before)
        self.assertEqual(self.requested('pinned', 0), 0)

    def test_registered_memory_has_a_block_of_its_own(self):
        before = self.requested()
        buffers = [self.gpumem.empty(1000), self.gpumem.empty(1000, registered=True),
                   self.gpumem.empty(1000, rdma=True), self.gpumem.pinned(1000),
                   self.gpumem.pinned(1000, registered=True)]
        blocks = [self.gpumem.describe(buffer).block for buffer in buffers]
        self.assertEqual(len(set(blocks)), 5)
        for buffer in buffers:
            buffer.free()
        self.assertEqual(self.requested(), before)

    def test_a_dma_buf(self):
        """The emulated one is the memory's file, at its place."""
        with self.gpumem.empty(5000, registered=True) as buffer:
            self.cuda.fill(buffer.pointer, 0x5a, 5000)
            self.cuda.call('cuCtxSynchronize')
            fd = self.gpumem.export_dmabuf(buffer)
            self.assertFalse(os.get_inheritable(fd))
            self.assertEqual(os.pread(fd, 5000, os.lseek(fd, 0, os.SEEK_CUR)), b'\x5a' * 5000)
            os.close(fd)
        for wrong in (self.gpumem.empty(5000), self.gpumem.empty(5000, shareable=True),
                      self.gpumem.pinned(5000, registered=True)):
            with self.assertRaises(self.gpumem.Unsupported):
                self.gpumem.export_dmabuf(wrong)

    def test_pinned_memory_is_registered(self):
        buffer = self.gpumem.pinned((3, 4), 'f8')
        self.assertTrue(self.gpumem.describe(buffer).is_registered)
        self.assertEqual(buffer.__array_interface__['typestr'], '<f8')
        self.assertFalse(hasattr(buffer, '__cuda_array_interface__'))
        world.ctypes.memset(buffer.pointer, 1, buffer.nbytes)

    def test_types_without_typestr(self):
        buffer = self.gpumem.empty(10, 'bfloat16')
        self.assertFalse(hasattr(buffer, '__cuda_array_interface__'))
        self.assertTrue(hasattr(buffer.view(20, 'u1'), '__cuda_array_interface__'))

    def test_views_stay_inside(self):
        buffer = self.gpumem.empty(100)
        with self.assertRaises(ValueError):
            buffer.view(26, 'f4')
        with self.assertRaises(ValueError):
            self.gpumem.empty((3, -1))

    def test_describe(self):
        buffer = self.gpumem.empty(1000, device=0)
        info = self.gpumem.describe(buffer.pointer + 10)
        self.assertEqual((info.kind, info.base, info.requested_bytes, info.is_attached),
                         ('device', buffer.pointer, 1000, False))
        with self.assertRaises(self.gpumem.NotOurs):
            self.gpumem.describe(1 << 20)

    def test_refusals_say_why(self):
        with self.assertRaises(self.gpumem.OutOfMemory) as caught:
            self.gpumem.empty(1 << 30, wait=0)
        self.assertIn('1.00 GiB', str(caught.exception))
        with self.assertRaises(MemoryError):
            self.gpumem.pinned(1 << 30, wait=0)
        with self.assertRaises(self.gpumem.Error):
            self.gpumem.empty(1000, device=9)
        with self.assertRaises(ValueError):
            self.gpumem.empty(1000, wait=-1)

    def test_own_limit(self):
        self.gpumem.set_limit(4 << 20, 1)
        with self.assertRaises(self.gpumem.OutOfMemory):
            self.gpumem.empty(32 << 20, device=1, wait=0)
        self.gpumem.set_limit(None, 1)
        self.gpumem.empty(32 << 20, device=1, wait=0)

    def test_flush_and_free_all(self):
        self.gpumem.empty(8 << 20, device=1)
        self.assertGreaterEqual(self.gpumem.flush(), 8 << 20)
        self.assertGreaterEqual(self.gpumem.free_all_blocks(), 8 << 20)
        self.assertEqual(self.gpumem.stats(1).reserved_bytes, 0)
        with self.assertRaises(ValueError):
            self.gpumem.free_all_blocks('all')

    def test_free_all_names_what_was_freed_and_not_returned(self):
        def held():
            stays = MACHINE.ctl('free-all')['stays']
            return next(((stay['bytes'], stay['allocated_bytes']) for stay in stays
                         if (stay['what'], stay['pid']) == ('held', os.getpid())), (0, 0))
        # In such a stream the library does not know at the free that the work is over.
        stream = self.cuda.stream()
        self.gpumem.flush()
        before = held()
        buffer = self.gpumem.empty(40 << 20, device=0, stream=stream)
        used = held()
        buffer.free()
        freed = held()
        self.assertGreaterEqual(used[1] - before[1], 40 << 20)
        self.assertEqual(freed, (used[0], before[1]))
        self.gpumem.flush()
        self.assertEqual(held(), before)
        self.cuda.destroy(stream)

    def test_numbers_that_c_would_cut_are_refused(self):
        gpumem = self.gpumem
        for call in (lambda: gpumem.empty(2**61 + 1, "float64"), lambda: gpumem.empty(1, device=-1),
                     lambda: gpumem.empty(1, device=2**32), lambda: gpumem.reserve(-1),
                     lambda: gpumem.set_limit(2**64)):
            with self.assertRaisesRegex(ValueError, "are possible"):
                call()

    def test_peaks(self):
        self.gpumem.empty(1 << 20, device=1)
        self.assertGreaterEqual(self.gpumem.stats(1).requested_peak_bytes, 1 << 20)
        self.gpumem.reset_peaks(1)
        self.assertEqual(self.gpumem.stats(1).requested_peak_bytes, 0)

    def figures_of_one_moment(self):
        """Between two readings the library's thread may return what a stream has finished."""
        held = figures = None
        while held != self.gpumem.stats(0):
            held, figures = self.gpumem.stats(0), self.gpumem.figures(0)
        return held, figures

    def test_figures_are_the_statistics(self):
        held, figures = self.figures_of_one_moment()
        self.assertEqual(figures['reserved_bytes'], held.reserved_bytes)
        self.assertIn('pressures', figures)
        from gpumem import _client
        self.assertIn('revocations', _client.own_figures(0))
        self.assertNotIn('available_bytes', _client.own_figures(0))
        for name in ('live', 'free_bytes', 'cached_bytes', 'largest_free_bytes'):
            self.assertEqual(figures[name], getattr(held, name))
        self.assertEqual(held.free_bytes, held.reserved_bytes - held.allocated_bytes)
        self.assertIsNone(held.limit_bytes)
        with self.assertRaises(ValueError):
            self.gpumem.stats(kind='host')

    def test_controls(self):
        self.gpumem.set_memory_fraction(0.5, 1)
        self.assertEqual(self.gpumem.stats(1).limit_bytes, 4 << 30)
        self.gpumem.set_memory_fraction(1.0, 1)
        self.assertIsNone(self.gpumem.stats(1).limit_bytes)
        with self.assertRaises(self.gpumem.Error):
            self.gpumem.set_memory_fraction(1.5, 1)
        self.gpumem.set_cache_size(1 << 20)
        self.assertEqual(self.gpumem.stats(1).cache_limit_bytes, 1 << 20)
        self.gpumem.set_cache_size(None)
        self.assertIsNone(self.gpumem.stats(1).cache_limit_bytes)

    def test_a_monitor_tells_until_it_is_stopped(self):
        told, enough = [], threading.Event()

        def note(stats):
            told.append(stats)
            if len(told) >= 3:
                enough.set()
        buffer = self.gpumem.empty(1 << 20, device=1)
        with self.gpumem.monitor(0.001, note, 1):
            self.assertTrue(enough.wait(60))
        n_told = len(told)
        self.assertEqual(told[0].requested_bytes, buffer.nbytes)
        self.assertEqual(told[0].live, 1)
        long = self.gpumem.monitor(600, note, 1)
        long.stop()
        self.assertEqual(len(told), n_told)
        for period, place in ((0, 1), (1, 77)):
            with self.assertRaises((ValueError, self.gpumem.Error)):
                self.gpumem.monitor(period, note, place)

    def test_a_monitor_watches_the_callers_device(self):
        told, enough = [], threading.Event()

        def note(stats):
            told.append(stats)
            monitor.stop()
            enough.set()
        cuda = world.Cuda()
        cuda.make_current(1)
        self.addCleanup(cuda.make_current)
        buffer = self.gpumem.empty(1 << 20)
        monitor = self.gpumem.monitor(0.2, note)
        self.assertTrue(enough.wait(60))
        self.assertEqual((buffer.device, told[0].requested_bytes), (1, buffer.nbytes))
        monitor._thread.join(60)
        self.assertEqual((monitor._thread.is_alive(), len(told)), (False, 1))

    def test_trims(self):
        with self.assertRaises(ValueError):
            self.gpumem.trim(-1)
        buffer = self.gpumem.empty(4 << 20, device=1)
        self.assertEqual(self.gpumem.trim(1 << 30), 0)
        self.gpumem.trim(1)
        self.assertGreaterEqual(self.gpumem.stats(1).reserved_bytes, buffer.nbytes)
        self.assertEqual(self.gpumem.trim_idle(3600), 0)

    def test_what_is_available(self):
        """This process's own unused memory, what is cached, and what the pool lacks of its size."""
        whole = 64 << 20

        def available():
            self.gpumem.flush()
            return self.gpumem.figures(1)['available_bytes']
        self.assertEqual(available(), whole)
        buffer = self.gpumem.empty(10 << 20, device=1)
        self.assertEqual(self.gpumem.figures(1)['available_bytes'], whole - buffer.nbytes)
        theirs = MACHINE.run('-c', 'import gpumem\nheld = gpumem.empty(8 << 20, device=1)\n'
                             'print(gpumem.figures(1)["available_bytes"])')
        self.assertEqual(theirs.stdout, f'{whole - buffer.nbytes - (8 << 20)}\n', theirs.stderr)
        self.assertTrue(world.wait_until(lambda: available() == whole - buffer.nbytes))
        self.gpumem.set_limit(30 << 20, 1)
        self.assertEqual(available(), (30 << 20) - buffer.nbytes)
        self.gpumem.set_limit(None, 1)

    def test_pressure_grows(self):
        before = self.gpumem.pressure()
        with self.assertRaises(MemoryError):
            self.gpumem.pinned(100 << 20, wait=0)
        held = [self.gpumem.pinned(8 << 20, wait=0) for _ in range(7)]
        with self.assertRaises(MemoryError):
            self.gpumem.pinned(32 << 20, wait=0)
        self.assertGreater(self.gpumem.pressure(), before)
        del held

    def test_tags_nest(self):
        with self.gpumem.tag('outer'):
            first = self.gpumem.empty(100)
            with self.gpumem.tag('inner'):
                second = self.gpumem.empty(200)
            third = self.gpumem.empty(400)
        self.gpumem.empty(800)
        self.assertEqual(self.gpumem.tag_stats('outer').requested_bytes, 500)
        self.assertEqual(self.gpumem.tag_stats('inner').requested_bytes, 200)
        del first, second, third
        self.assertEqual(self.gpumem.tag_stats('outer').live, 0)
        with self.assertRaises(self.gpumem.Error):
            self.gpumem.tag_stats('unused')

    def test_threads_may_share_a_tag(self):
        shared, entered, left = self.gpumem.tag('shared'), threading.Event(), threading.Event()

        def enter():
            with self.gpumem.tag('other'), shared:
                entered.set()
                left.wait()
        thread = threading.Thread(target=enter)
        with shared:
            thread.start()
            entered.wait()
        buffer = self.gpumem.empty(100)  # of no tag again
        left.set()
        thread.join()
        self.assertEqual(self.gpumem.tag_stats('other').live, 0)
        del buffer

    def test_registered_streams(self):
        stream = self.cuda.stream()
        self.gpumem.stream_register(stream)
        buffer = self.gpumem.empty(1000, stream=stream)
        buffer.record_use(self.cuda.stream())
        del buffer
        self.gpumem.stream_unregister(stream)
        with self.assertRaises(self.gpumem.Error):
            self.gpumem.stream_unregister(stream)

    def test_a_stream_of_another_device_is_named_for_pinned_memory(self):
        """Its free waits for two contexts only, and for what record_use() names."""
        gate, done = threading.Event(), []
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            lambda unused: gate.wait() and done.append('work'))
        buffer = self.gpumem.pinned(1000)
        self.cuda.make_current(1)
        stream = self.cuda.stream()
        self.cuda.call('cuLaunchHostFunc', ctypes.c_void_p(stream), function, None)
        self.cuda.make_current(0)
        buffer.record_use(stream)

        def end():
            self.cuda.make_current(0)
            buffer.free()
            done.append('end')
        thread = threading.Thread(target=end)
        thread.start()
        thread.join(0.2)  # the end comes now, if it does not wait
        gate.set()
        thread.join()
        self.assertEqual(done, ['work', 'end'])

    def test_announced_captures(self):
        with self.gpumem.capturing(), self.gpumem.capturing():
            self.gpumem.empty(1000).free()
        announced = self.gpumem.capturing()
        with self.assertRaisesRegex(self.gpumem.Error, 'before_capture'):
            announced.__exit__()

    def test_threads(self):
        wrong = []

        def work(number):
            for i in range(100):
                buffer = self.gpumem.pinned(1000 + i)
                world.ctypes.memset(buffer.pointer, number, buffer.nbytes)
                if world.ctypes.string_at(buffer.pointer, buffer.nbytes) != \
                        bytes([number]) * buffer.nbytes:
                    wrong.append(number)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.requested('pinned', 0), 0)


class Beginning(unittest.TestCase):
    """Of a process of its own."""

    def test_a_start_costs_nothing(self):
        ran = MACHINE.run('-c', """if True:
            import os
            def has():
                return len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))
            def maps(name):
                with open('/proc/self/maps') as file:
                    return name in file.read()
            before = has()
            import gpumem
            from gpumem import _library
            assert not maps('libgpumem') and not maps('libcuda')
            _library.load()
            assert maps('libgpumem') and not maps('libcuda')
            assert has() == before, (has(), before)
            gpumem.version()
            assert has() == before
            gpumem.connect()
            assert maps('libcuda') and has()[0] > before[0]
            print('as told')
            """)
        self.assertEqual(ran.stdout.strip(), 'as told', ran.stderr)


class Ends(unittest.TestCase):
    """Last: the daemon goes."""

    def test_without_a_daemon(self):
        import gpumem
        buffer = gpumem.empty(1000, device=0)
        MACHINE.kill()
        buffer.free()
        with self.assertRaises(gpumem.NoDaemon) as caught:
            gpumem.empty(8 << 20, device=0, wait=0)
        self.assertIn(MACHINE.environment['GPUMEM_SOCKET'], str(caught.exception))


if __name__ == '__main__':
    unittest.main()
