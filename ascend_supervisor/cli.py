"""The program: the only reader of argv and environ besides ctl."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn

from ascend_supervisor import imports
from ascend_supervisor.caught_signals import CaughtSignals

SWITCH_SECONDS = 0.0003
"""How long a thread may keep the GIL: the writing threads need it briefly, but soon."""


def main() -> NoReturn:
    """Run, and end the process with the job's exit code, or with ours."""
    _open_standard_streams()
    heard = CaughtSignals()
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
