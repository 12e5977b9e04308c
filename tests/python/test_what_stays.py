# SPDX-License-Identifier: Apache-2.0
"""What stays of a burst of buffers in a process that goes on living and keeps a few small ones."""

import unittest

import world

MACHINE = world.World(devices=1, device_bytes='6GiB')
PIECE_BYTES = (4 << 20) - 4096
PIECES = 1024


def setUpModule():
    (MACHINE.folder / 'empty.conf').write_text(
        '{"pools": [{"device": 0, "return_after_seconds": 1}]}\n')
    world.enter(MACHINE.start())


def tearDownModule():
    MACHINE.stop()


def reserved():
    """Of the device, as the daemon says: this process makes no call."""
    return sum(row['reserved_bytes'] for row in MACHINE.ctl('stats')['pools']
               if row['kind'] == 'device')


class Bursts(unittest.TestCase):

    def setUp(self):
        import gpumem
        self.gpumem = gpumem
        self.cuda = world.Cuda()
        self.cuda.make_current()
        self.kept = []

    def burst(self, stream=None):
        """Returns the buffers. What is kept beside them is the test's."""
        self.kept = [self.gpumem.empty(4096, stream=stream) for _ in range(5)]
        self.n_kept = reserved()
        return [self.gpumem.empty(PIECE_BYTES, stream=stream) for _ in range(PIECES)]

    def expect_nothing_else(self, call=lambda: None):
        def is_so():
            call()
            return reserved() <= self.n_kept
        self.assertTrue(world.wait_until(is_so, 20), (reserved(), self.n_kept))

    def test_buffers_that_are_freed(self):
        buffers = self.burst()
        self.assertGreaterEqual(reserved(), PIECES * PIECE_BYTES)
        for buffer in buffers:
            buffer.free()
        self.expect_nothing_else()

    def test_buffers_that_end(self):
        buffers = self.burst()
        buffers.clear()
        self.expect_nothing_else()

    def test_a_loop(self):
        """Its last frees may be too many to be recorded; the next call of any kind records them."""
        buffers = self.burst()
        buffers.clear()
        for _ in range(5000):
            self.gpumem.empty(PIECE_BYTES)
        self.expect_nothing_else(lambda: self.gpumem.stats(0))

    def test_a_stream_that_is_not_registered(self):
        """It might be destroyed already, so the next buffer there tells."""
        stream = self.cuda.stream()
        buffers = self.burst(stream)
        buffers.clear()
        more = []
        self.expect_nothing_else(lambda: more.append(self.gpumem.empty(512, stream=stream)))
        more.clear()
        self.kept.clear()
        self.gpumem.flush()
        self.cuda.destroy(stream)


if __name__ == '__main__':
    unittest.main()
