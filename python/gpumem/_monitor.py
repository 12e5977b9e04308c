# SPDX-License-Identifier: Apache-2.0
"""Statistics at intervals, told to a callback."""

from __future__ import annotations

import threading

from . import _client, _driver, _structs
from ._library import load

TYPE_CHECKING = False  # typing costs more than the rest of this package
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._figures import Stats


class Monitor:
    """What gpumem.monitor() gives: it tells until stop(), or until the callback raises.

    The thread ends with the process. A forked child has none."""

    def __init__(
        self, period: float, callback: Callable[[Stats], object], place: int | None, kind: int
    ) -> None:
        self._period_ms = _client.milliseconds("the period", period)
        if not self._period_ms:
            raise ValueError(f"the period is {period} seconds; 0.001 is the least")
        _client.wait_for_stats(place, kind, 0)  # what is wrong is raised here
        if place is None and kind == _structs.DEVICE:
            place = _driver.current_device()  # the caller's: the thread has no context
        self._callback, self._place, self._kind = callback, place, kind
        self._is_over = False
        self._thread = threading.Thread(target=self._tell, name="gpumem-monitor", daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        while not self._is_over:
            stats = _client.wait_for_stats(self._place, self._kind, self._period_ms)
            if not self._is_over:
                self._callback(stats)

    def stop(self) -> None:
        """Ends it. The callback does not run any more when this returns, unless it is the caller."""
        self._is_over = True
        while self._thread is not threading.current_thread() and self._thread.is_alive():
            load().monitor_wake(None)
            self._thread.join(0.01)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()
