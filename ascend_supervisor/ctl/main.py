"""``ascend-supervisorctl``: looks at a supervisor, asks it to act, and reads rank tables.

It reads the state file, the logs named there, and /proc, and connects to the control socket.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from ascend_supervisor.ctl.arguments import PROBES, parse_arguments
from ascend_supervisor.ctl.commands import COMMANDS, FAILED
from ascend_supervisor.ctl.out import STANDARD, Out
from ascend_supervisor.errors import CANNOT_WRITE, DEFECT, USAGE, Refusal
from ascend_supervisor.files.standard_streams import StdoutLost
from ascend_supervisor.imports import why_not

TRIAL = "trial"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PROBE_SECONDS = 5.0
"""The deadline of a probe: a file system that stands still has no time-out of its own."""


def main() -> NoReturn:
    """Run the command, and end the process."""
    try:
        sys.exit(run(sys.argv[1:], dict(os.environ), STANDARD, _set_deadline, _catch_signals))
    except KeyboardInterrupt as interrupt:
        _die_of(*interrupt.args or (signal.SIGINT,))
    except BrokenPipeError:
        _die_of(signal.SIGPIPE)


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    out: Out = STANDARD,
    set_deadline: Callable[[float], object] = lambda _: None,
    catch_signals: Callable[[], object] = lambda: None,
) -> int:
    """The exit code; every refusal has been printed.

    ``set_deadline`` is called for a probe, and ends the process after so many seconds.
    ``catch_signals`` is called for a trial: from now on each is a KeyboardInterrupt. Raises
    BrokenPipeError, KeyboardInterrupt, and SystemExit after ``--help``.
    """
    command = ""
    try:
        arguments = parse_arguments(argv)
        command = arguments.command
        if command in PROBES:
            set_deadline(PROBE_SECONDS)
        if command == TRIAL:
            catch_signals()
        return COMMANDS[command](arguments, environ, out)
    except Refusal as refusal:
        for fault in refusal.faults:
            out.say(fault)
        code = refusal.exit_code
    except StdoutLost as lost:
        out.say(str(lost))
        code = CANNOT_WRITE
    except BrokenPipeError:
        raise
    except ImportError as error:  # a command imports only what it needs, when it runs
        out.say(why_not(error))
        code = USAGE
    except Exception as error:  # noqa: BLE001  (report any error to the operator in a sentence)
        out.say(f"a defect of this program: {error!r}; please report it with the command line")
        code = DEFECT
    return FAILED if command in PROBES else code


def _set_deadline(seconds: float) -> None:
    """Exit with 1 after ``seconds``, silently, even if a call never returns and takes no signal."""
    with suppress(RuntimeError):  # there is no room for a thread
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)


def _catch_signals() -> None:
    """The first that asks us to end raises KeyboardInterrupt with its number; others are ignored.

    What follows the first one has bounds of its own, and leaves nothing.
    """

    def interrupt(number: int, _: object) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number))

    for one in ENDING:
        signal.signal(one, interrupt)


def _die_of(number: signal.Signals) -> NoReturn:
    """End as if the signal had never been caught: silently, and the shell sees the signal."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    sys.exit(128 + number)
