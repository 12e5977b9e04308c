# SPDX-License-Identifier: Apache-2.0
"""vLLM's custom all-reduce. It sends tensors to other processes as CUDA IPC handles, which memory of
gpumemd has not, and ends the process where the driver refuses one. So vLLM is told that it has none
of it, as on machines without it, and uses NCCL."""

from __future__ import annotations

import sys
from typing import Any

from .. import _hook, _notice
from . import _patches

MODULE = "vllm.distributed.device_communicators.custom_all_reduce"
_FLAG = "custom_ar"  # whether vLLM has found its library


def _switch_off(module: Any) -> None:
    if not hasattr(module, _FLAG):
        _notice.say("this vLLM's custom all-reduce is not known: start vLLM with "
                    "--disable-custom-all-reduce")
    elif getattr(module, _FLAG):
        _patches.put(module, _FLAG, False)
        _notice.say("vLLM's custom all-reduce stays off: it needs CUDA IPC handles, which gpumemd's "
                    "memory has not. NCCL reduces; `GPUMEM_DISABLE=1` runs vLLM with torch's own "
                    "allocator")


def install() -> None:
    """From now on, and where vLLM is there already."""
    if MODULE in sys.modules:
        _switch_off(sys.modules[MODULE])
        return
    finder = _hook.Finder({MODULE: _switch_off})
    sys.meta_path.insert(0, finder)
    _patches.later(lambda: sys.meta_path.remove(finder))
