# SPDX-License-Identifier: Apache-2.0
"""What torch's interface for allocators cannot do: refused, or switched off, each in one line that
says what to do instead."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch

from .. import _errors, _notice, _torch_extension
from . import _patches
from ._statistics import replace

_INSTEAD = "`GPUMEM_DISABLE=1` runs the program with torch's own allocator"


def _say_what_is_ignored() -> None:
    """Settings of torch's allocator that have no effect."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if os.environ.get(name):
            _notice.say(f"{name} is ignored: it sets torch's allocator, and gpumemd's serves. "
                        f"Unset it; {_INSTEAD}")


def _refuse(what: str, instead: str) -> Callable[..., Any]:
    def refused(*arguments: Any, **options: Any) -> Any:
        raise _errors.Unsupported(f"{what} is not possible with gpumemd's memory: {instead}")

    return refused


def _refuse_snapshots(names: tuple[str, ...]) -> None:
    instead = f"`gpumemctl snapshot` shows what gpumemd holds; {_INSTEAD}"
    for name in names:
        if hasattr(torch.cuda.memory, name):
            replace(name, _refuse(f"torch.cuda.memory.{name}", instead))


def _refuse_ipc() -> None:
    _patches.put(torch.UntypedStorage, "_share_cuda_", _refuse(
        "sending a CUDA tensor to another process",
        "share memory by gpumem.share() and gpumem.attach(), send the tensor's .cpu(), or build "
        f"torch's extension: `{_torch_extension.COMMAND}`",
    ))  # fmt: skip


def _refuse_pools() -> None:
    pool_class = torch.cuda.MemPool
    make = pool_class.__init__

    def __init__(self: Any, allocator: Any = None, *arguments: Any, **options: Any) -> None:
        if allocator is not None:
            raise _errors.Unsupported(
                "a MemPool with an allocator of its own is not possible while gpumemd serves every "
                f"tensor: make it without one; {_INSTEAD}")
        try:
            make(self, allocator, *arguments, **options)
        except RuntimeError as error:  # from torch 2.11 on, or before, a pool asks its allocator
            if "createOrIncrefPool" not in str(error):
                raise
            raise _errors.Unsupported(
                "a MemPool is not possible with gpumemd's memory, unless torch's extension is "
                f"built: `{_torch_extension.COMMAND}`; {_INSTEAD}") from error

    _patches.put(pool_class, "__init__", __init__)


class _StaysOff:
    """torch.backends.cudnn.benchmark: cuDNN would ask the allocator for its cache's size."""

    def __get__(self, instance: Any, owner: Any) -> bool:
        return False

    def __set__(self, instance: Any, value: bool) -> None:
        keep_benchmark_off(value)


_is_benchmark_wanted = False  # what torch has again if it is not served


def keep_benchmark_off(value: bool) -> None:
    """Tells of it where the program switches it on."""
    global _is_benchmark_wanted
    _is_benchmark_wanted = bool(value)
    if value:
        _notice.say("torch.backends.cudnn.benchmark stays off: cuDNN's search needs torch's "
                    f"extension, which `{_torch_extension.COMMAND}` builds. {_INSTEAD}")


def _switch_benchmark_off() -> bool:
    """Whether it was on."""
    global _is_benchmark_wanted
    set_benchmark = torch._C._set_cudnn_benchmark
    _is_benchmark_wanted = was_on = bool(torch._C._get_cudnn_benchmark())
    _patches.later(lambda: set_benchmark(_is_benchmark_wanted))
    set_benchmark(False)
    _patches.put(torch._C, "_set_cudnn_benchmark", keep_benchmark_off)
    _patches.put(type(torch.backends.cudnn), "benchmark", _StaysOff())
    return was_on


_WITHOUT_GRAPHS = {"reduce-overhead": None, "max-autotune": "max-autotune-no-cudagraphs"}
_GRAPHS_OPTION = "triton.cudagraphs"


def without_graphs(options: dict[str, Any]) -> dict[str, Any]:
    """What torch.compile is to be told in place of `options`."""
    made = dict(options)
    asked = []
    if made.get("mode") in _WITHOUT_GRAPHS:
        asked.append(f"mode={made['mode']!r}")
        made["mode"] = _WITHOUT_GRAPHS[made["mode"]]
    if (made.get("options") or {}).get(_GRAPHS_OPTION):
        asked.append(f"option {_GRAPHS_OPTION}")
        made["options"] = {**made["options"], _GRAPHS_OPTION: False}
    if asked:
        _notice.say(f"torch.compile with {' and '.join(asked)} makes no CUDA graphs: torch saves "
                    f"its own allocator's state for them. Use torch.cuda.graph; {_INSTEAD}")
    return made


def _switch_graph_trees_off() -> None:
    compile_ = torch.compile

    @functools.wraps(compile_)
    def compile(*arguments: Any, **options: Any) -> Any:
        return compile_(*arguments, **without_graphs(options))

    _patches.put(torch, "compile", compile)


def _switch_nccl_registration_off() -> None:
    if os.environ.get("NCCL_GRAPH_REGISTER") == "0":
        return
    os.environ["NCCL_GRAPH_REGISTER"] = "0"
    if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
        _notice.say("NCCL_GRAPH_REGISTER=0 is set: NCCL registers no memory of gpumemd in graphs")


def install(has_extension: bool = False) -> Callable[[], None]:
    """From now on. Gives what tells of them, to be called when torch's allocator is replaced."""
    _refuse_snapshots(("_record_memory_history",))
    was_on = False
    if not has_extension:
        _refuse_snapshots(("_snapshot", "_dump_snapshot", "memory_snapshot"))
        _refuse_ipc()
        was_on = _switch_benchmark_off()
    _refuse_pools()
    _switch_graph_trees_off()

    def tell() -> None:
        _say_what_is_ignored()
        keep_benchmark_off(was_on)
        _switch_nccl_registration_off()

    return tell
