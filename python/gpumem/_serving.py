# SPDX-License-Identifier: Apache-2.0
"""Whether a framework's memory can be gpumemd's here: each adapter's install() asks before it says so."""

from __future__ import annotations

from . import _client, _driver, _errors

DISABLED = "nothing: GPUMEM_DISABLE is set"  # what each install() says then

_DOCTOR = "; `python -m gpumem doctor` says what to do"


def _count_devices() -> int:
    try:
        return _driver.count_devices()
    except (OSError, AttributeError) as error:
        raise _errors.NoDriver(f"no CUDA driver: {error}{_DOCTOR}", _errors.NO_DRIVER) from None


def check(device: int | None = None) -> None:
    """Connects. Raises where gpumemd has no pool for a device of this process.

    None: for none of its devices. The driver is initialised by this: a child that is forked later
    has none, so an adapter whose framework waits for its first use waits for that, too."""
    _client.connect()
    n = _count_devices()
    for place in range(n) if device is None else [device]:
        try:
            _client.stats(place)
        except _errors.Error as error:
            if error.result != _errors.NO_POOL:
                raise
        else:
            return
    what = "any CUDA device of this process" if device is None else f"CUDA device {device}"
    raise _errors.Error(f"gpumemd has no pool for {what}{_DOCTOR}", _errors.NO_POOL)
