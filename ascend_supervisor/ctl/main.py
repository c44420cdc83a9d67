"""``ascend-supervisorctl``: looks at a supervisor, asks it to act, and reads rank tables.

It reads the state file, the logs named there, and /proc, and connects to the control socket.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from ascend_supervisor.ctl.arguments import parse_arguments
from ascend_supervisor.ctl.commands import COMMANDS
from ascend_supervisor.ctl.out import STANDARD, Out
from ascend_supervisor.errors import CANNOT_WRITE, DEFECT, Refusal
from ascend_supervisor.files.standard_streams import StdoutLost

PROBES = frozenset({"health", "ready"})
PROBE_SECONDS = 5.0
"""The deadline of a probe, whatever it waits for."""
LAST_RESORT_SECONDS = 0.5
"""After the deadline: a call that no handler interrupts ends with the process (exit code 142)."""
FAILED = 1
"""The exit code of a probe that fails, whatever the reason."""


class TooLate(Exception):
    """The deadline of a probe has passed."""


def main() -> NoReturn:
    """Run the command, and end the process."""
    try:
        sys.exit(run(sys.argv[1:], dict(os.environ), STANDARD, _set_deadline))
    except KeyboardInterrupt:
        _die_of(signal.SIGINT)
    except BrokenPipeError:
        _die_of(signal.SIGPIPE)


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    out: Out = STANDARD,
    set_deadline: Callable[[float], object] = lambda _: None,
) -> int:
    """The exit code; every refusal has been printed.

    ``set_deadline`` is called for a probe, and has TooLate raised after so many seconds. Raises BrokenPipeError, and SystemExit after ``--help``.
    """
    command = ""
    try:
        arguments = parse_arguments(argv)
        command = arguments.command
        if command in PROBES:
            set_deadline(PROBE_SECONDS)
        return COMMANDS[command](arguments, environ, out)
    except Refusal as refusal:
        for fault in refusal.faults:
            out.say(fault)
        code = refusal.exit_code
    except TooLate:
        out.say(f"no answer within {PROBE_SECONDS:g} s: the supervisor or a file system stands still")
        code = FAILED
    except StdoutLost as lost:
        out.say(str(lost))
        code = CANNOT_WRITE
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  (report any error to the operator in a sentence)
        out.say(f"a defect of this program: {error!r}; please report it with the command line")
        code = DEFECT
    return FAILED if command in PROBES else code


def _set_deadline(seconds: float) -> None:
    def too_late(*_: object) -> NoReturn:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        raise TooLate

    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds, LAST_RESORT_SECONDS)


def _die_of(number: signal.Signals) -> NoReturn:
    """End as if the signal had never been caught: silently, and the shell sees the signal."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    sys.exit(128 + number)
