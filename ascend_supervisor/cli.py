"""The program: the only reader of argv and environ besides ctl.

Signals are recorded before anything slow is imported, and handed to the event loop when it runs:
PID 1 would lose an early SIGTERM.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn

from ascend_supervisor import imports

EARLY = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
RESTORED = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Python ignores these itself, and restores them in child processes."""


class EarlySignals:
    """The signals that have come and were not handled yet, each once."""

    def __init__(self) -> None:
        """Record them from now on; reset ignored and blocked signals, which children inherit."""
        self._numbers: deque[int] = deque()
        self._wake: Callable[[], object] = lambda: None
        for number in signal.valid_signals():
            if signal.getsignal(number) == signal.SIG_IGN and number not in RESTORED:
                signal.signal(number, signal.SIG_DFL)
        for number in EARLY:
            signal.signal(number, self._record)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def listen(self, handlers: Mapping[int, Callable[[], None]]) -> None:
        """Call ``handlers`` in the running event loop from now on, and for recorded signals."""
        import asyncio  # noqa: PLC0415  (slow; recording comes first)

        def tell() -> None:
            while self._numbers:
                handlers[self._numbers.popleft()]()

        loop = asyncio.get_running_loop()
        # This wakes the loop for every signal. Those of EARLY keep our handlers: with two handlers,
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


SWITCH_SECONDS = 0.0003
"""How long a thread may keep the GIL: the writing threads need it briefly, but soon."""


def main() -> NoReturn:
    """Run, and end the process with the job's exit code, or with ours."""
    _open_standard_streams()
    heard = EarlySignals()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.disable()  # all objects stay; scanning them took a quarter of the start
    try:
        from ascend_supervisor.program.run import run  # noqa: PLC0415  (slow; recording comes first)
    except Exception as error:  # noqa: BLE001  (whatever a package raises, it is not there)
        _leave(imports.refuse(error, imports.SUPERVISOR))

    def listen(handlers: Mapping[int, Callable[[], None]]) -> None:
        heard.listen(handlers)
        # Only now is everything imported: the event loop, and what runs it, come last.
        gc.freeze()
        gc.enable()

    _leave(run(sys.argv[1:], dict(os.environ), listen, _leave))


def _open_standard_streams() -> None:
    """Open /dev/null as each of stdin, stdout and stderr that is closed.

    Otherwise the next file that is opened gets the number, and events could go to a socket.
    Python keeps None for such a stream, which shows that it was closed.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one


def _leave(code: int) -> NoReturn:
    """End now: a thread stuck in a write must not block the exit."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed before we began
        with suppress(OSError, ValueError):
            stream.flush()
    if os.getpid() == 1:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    os._exit(code)
