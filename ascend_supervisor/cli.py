"""The program: the only reader of argv, environ and signals besides ctl.

Signals are recorded before anything slow is imported: PID 1 would not even notice an early SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn

EARLY = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
SWITCH_SECONDS = 0.0003
"""How long a thread may keep the others from running: the writers need little, but soon."""
RESTORED = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""Python ignores these itself, and gives them back to what it starts."""


def main() -> NoReturn:
    """Run, and end the process with the job's exit code, or with ours."""
    _open_standard_streams()
    heard = _Heard()
    sys.setswitchinterval(SWITCH_SECONDS)
    from ascend_supervisor.run import run  # noqa: PLC0415  (slow; recording comes first)

    _leave(run(sys.argv[1:], dict(os.environ), heard.listen, _leave))


def _open_standard_streams() -> None:
    """Open /dev/null as each of stdin, stdout and stderr that is closed.

    Otherwise the next file that is opened gets the number: events would be written to a socket.
    Python keeps None for such a stream, by which one tells that it was closed.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one


class _Heard:
    """The signals that have come and that nobody has been told of yet, each once."""

    def __init__(self) -> None:
        """Record them from now on; undo what children would inherit."""
        self._numbers: deque[int] = deque()
        self._wake: Callable[[], object] = lambda: None
        for number in signal.valid_signals():
            if signal.getsignal(number) == signal.SIG_IGN and number not in RESTORED:
                signal.signal(number, signal.SIG_DFL)
        for number in EARLY:
            signal.signal(number, self._record)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def listen(self, handlers: Mapping[int, Callable[[], None]]) -> None:
        """Call ``handlers`` in the running event loop from now on, and for what came before it."""
        import asyncio  # noqa: PLC0415  (slow; recording comes first)

        def tell() -> None:
            while self._numbers:
                handlers[self._numbers.popleft()]()

        loop = asyncio.get_running_loop()
        # This wakes the loop for every signal. Those of EARLY stay ours: with two who listen, one
        # that comes while they change places would be heard twice.
        loop.add_signal_handler(signal.SIGCHLD, handlers[signal.SIGCHLD])
        # Its pipe holds some 270 signals. When it is full, the loop wakes anyway.
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
        self._wake = partial(loop.call_soon_threadsafe, tell)
        tell()

    def _record(self, number: int, _: object) -> None:
        self._numbers.append(number)
        self._wake()


def _leave(code: int) -> NoReturn:
    """End now: a thread that is stuck in a write must not keep us."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed before we began
        with suppress(OSError, ValueError):
            stream.flush()
    if os.getpid() == 1:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    os._exit(code)
