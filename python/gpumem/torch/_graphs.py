# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs that share a pool: torch.cuda.graph(g, pool=handle) shares memory as torch's do.

Each capture is announced, since other threads may free tensors while it begins or ends.
"""

from __future__ import annotations

import hashlib
import weakref
from typing import Any

import torch

from .. import _client, _errors
from .._library import load
from . import _patches

# A pool is open in the stream already; torch itself says that it captures no default stream.
_LEFT_TO_TORCH = (_errors.GRAPH_POOL_OPEN, _errors.UNSUPPORTED)


def pool_number(pool_id: Any) -> int:
    """gpumemd's number for torch's id of a pool, a pair of integers: below 2**63, never 0."""
    text = repr(tuple(int(n) for n in pool_id)).encode()
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 | 1


def _open_pool(graph: Any, pool_id: Any) -> bool:
    number, stream = pool_number(pool_id), torch.cuda.current_stream().cuda_stream
    result = load().graph_pool_begin(None, number, stream or None, None)
    if result in _LEFT_TO_TORCH:
        return False
    _client.check(result)
    graph._gpumem_pool = number, stream
    return True


def _close_pool(graph: Any) -> None:
    opened = graph.__dict__.pop("_gpumem_pool", None)
    if opened is not None:
        _client.check(load().graph_pool_end(None, opened[0], opened[1] or None))


def _announce(graph: Any) -> bool:
    """Announces the graph's capture, to its end or the graph's; False: it is announced already."""
    if "_gpumem_announced" in graph.__dict__:
        return False
    _client.check(load().before_capture(None))
    ended = weakref.finalize(graph, load().after_capture, None)
    ended.atexit = False
    graph._gpumem_announced = ended
    return True


def _tell_of_end(graph: Any) -> None:
    announced = graph.__dict__.pop("_gpumem_announced", None)
    if announced is not None and announced.detach():
        _client.check(load().after_capture(None))


def _end(graph: Any) -> None:
    try:
        _tell_of_end(graph)
    finally:
        _close_pool(graph)


def install() -> None:
    """Wraps the two ends of a capture."""
    graph_class = torch.cuda.CUDAGraph
    begin, end = graph_class.capture_begin, graph_class.capture_end

    def capture_begin(self: Any, pool: Any = None, *arguments: Any, **options: Any) -> Any:
        given = arguments if pool is None else (pool, *arguments)
        is_opened = pool is not None and _open_pool(self, pool)
        is_announced = False
        try:
            is_announced = _announce(self)
            return begin(self, *given, **options)
        except BaseException:  # an earlier capture of the same graph may go on
            if is_announced:
                _tell_of_end(self)
            if is_opened:
                _close_pool(self)
            raise

    def capture_end(self: Any) -> Any:
        try:
            return end(self)
        finally:
            _end(self)

    _patches.put(graph_class, "capture_begin", capture_begin)
    _patches.put(graph_class, "capture_end", capture_end)
