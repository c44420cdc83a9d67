"""The program: the only reader of argv, environ and signals besides ctl.

Signals are recorded before anything slow is imported: PID 1 would not even notice an early SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
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
    early = _record_signals()
    sys.setswitchinterval(SWITCH_SECONDS)
    from ascend_supervisor.compose import run  # noqa: PLC0415  (slow; recording comes first)

    _leave(run(sys.argv[1:], dict(os.environ), partial(_listen, early), _leave))


def _record_signals() -> list[int]:
    """Note the signals that come before the event loop runs; undo what children would inherit."""
    early: list[int] = []
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN and number not in RESTORED:
            signal.signal(number, signal.SIG_DFL)
    for number in EARLY:
        signal.signal(number, lambda heard, _: early.append(heard))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return early


def _listen(early: list[int], handlers: Mapping[int, Callable[[], None]]) -> None:
    """Call ``handlers`` in the running event loop from now on, and for what came before it."""
    import asyncio  # noqa: PLC0415  (slow; recording comes first)

    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    for number in early:
        handlers[number]()


def _leave(code: int) -> NoReturn:
    """End now: a thread that is stuck in a write must not keep us."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if os.getpid() == 1:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    os._exit(code)
