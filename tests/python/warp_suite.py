#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Warp's own tests of allocators, with Warp's allocator or with gpumemd's in its place: how each ended, as JSON.

    warp_suite.py own|gpumem FILE
"""

import sys

import outcomes
import warp

MODULE = 'warp.tests.test_allocator'


def main():
    whose, file = sys.argv[1:]
    warp.init()
    if whose == 'gpumem':
        import gpumem.warp
        for device in warp.get_cuda_devices():
            # The tests wrap the one, and go back to the other.
            device.default_allocator = device.current_allocator = gpumem.warp.Allocator(device)
    sys.argv = [outcomes.__file__, file, MODULE]
    outcomes.main()


if __name__ == '__main__':
    main()
