"""The signals that we catch: recorded before anything slow is imported, so that none is lost.

PID 1 would lose an early SIGTERM. They are handed to the event loop when it runs.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

CAUGHT = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
RESTORED = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Python ignores these itself, and restores them in child processes."""


class CaughtSignals:
    """The signals that have come and were not handled yet, each once."""

    def __init__(self) -> None:
        """Record them from now on; reset ignored and blocked signals, which children inherit."""
        self._numbers: deque[int] = deque()
        self._wake: Callable[[], object] = lambda: None
        for number in signal.valid_signals():
            if signal.getsignal(number) == signal.SIG_IGN and number not in RESTORED:
                signal.signal(number, signal.SIG_DFL)
        for number in CAUGHT:
            signal.signal(number, self._record)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def listen(self, handlers: Mapping[int, Callable[[], None]]) -> None:
        """Call ``handlers`` in the running event loop from now on, and for recorded signals."""
        import asyncio  # noqa: PLC0415  (slow; recording comes first)

        def tell() -> None:
            while self._numbers:
                handlers[self._numbers.popleft()]()

        loop = asyncio.get_running_loop()
        # This wakes the loop for every signal. Those of CAUGHT keep our handlers: with two of them,
        # a signal that comes during the change would be handled twice.
        loop.add_signal_handler(signal.SIGCHLD, handlers[signal.SIGCHLD])
        # Its pipe holds some 270 signals. When it is full, the loop wakes anyway.
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
        self._wake = partial(loop.call_soon_threadsafe, tell)
        tell()

    def _record(self, number: int, _: object) -> None:
        self._numbers.append(number)
        with suppress(RuntimeError):  # the loop has ended, and so do we
            self._wake()
