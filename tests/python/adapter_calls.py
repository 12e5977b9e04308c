# SPDX-License-Identifier: Apache-2.0
"""The functions of libgpumem-client that frameworks call, called as they call them: with the GIL."""

import ctypes

from gpumem import _library


def _function(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)(_library.load().address(name))


def ends(whose, stream=0):
    """alloc(n_bytes) and free(address), on device 0; CuPy's are in the default stream, and "pool" is a MemPool's."""
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if whose == 'cupy':
        alloc = _function('gpumem_cupy_alloc', pointer, pointer, size, number)
        free = _function('gpumem_cupy_free', None, pointer, pointer, number)
        return lambda n: alloc(None, n, 0), lambda address: free(None, address, 0)
    if whose in ('torch', 'pool'):
        name = 'gpumem_torch_alloc' if whose == 'torch' else 'gpumem_torch_pool_alloc'
        alloc = _function(name, pointer, size, number, pointer)
        free = _function('gpumem_torch_free', None, pointer, size, number, pointer)
        return lambda n: alloc(n, 0, stream), lambda address: free(address, 0, 0, stream)
    alloc, free = map(_library.load().python_function, (b'alloc', b'free'))
    return lambda n: alloc(n, 0, stream), lambda address: free(address, stream)
