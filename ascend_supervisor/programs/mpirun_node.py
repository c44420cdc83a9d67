"""What the other nodes of an mpirun job do while mpirun runs on node 0; a program of its own.

    python -I -S mpirun_node.py --port P --wait S --job NAME HOST

It waits for the exit code of mpirun on HOST, over ssh, and exits with it (mpirun_head stores it,
in files whose names begin with NAME). If HOST does not let us in, or the connection is lost, it
prints a sentence and exits with 69.
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

UNAVAILABLE = 69
AGAIN_SECONDS = 0.5
BACK_SECONDS = 20.0
"""An sshd that let us in before must do so again within this time."""
FOLDER = ".ascend_supervisor"
"""Below the home directory of the ssh user, on node 0."""
HEAD = "mpirun_head.py"
"""The program there."""
ALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
"""The loss of node 0 is noticed within 15 s."""
WAIT_THERE = """\
alive() {{ grep -qa {program} "/proc/$(cat {base}.pid)/cmdline"; }}
again() {{ [ -e "/proc/$PPID" ] || exit; sleep 0.5; }}
{{
    echo here
    until alive; do again; done
    echo begun
    while [ ! -e {base}.exit_code ] && alive; do again; done
    [ -e {base}.exit_code ] || exit
    echo ended "$(cat {base}.exit_code)"
    : > {base}.exit_code.fetched.{index}
}} 2>/dev/null
"""
"""Prints that we are logged in, that mpirun's node has begun, and the exit code when it has ended.

Without a stored exit code the last line is missing. Its parent is the sshd of this login, which
ends with the connection; nobody else would end a wait for an mpirun that never begins.
"""


def say(text: str) -> None:
    sys.stdout.write(f"ascend_supervisor: {text}\n")
    sys.stdout.flush()


def fail(text: str) -> int:
    say(text)
    return UNAVAILABLE


def node(arguments: argparse.Namespace) -> int:
    first = arguments.host
    end = time.monotonic() + arguments.wait
    base = f"{FOLDER}/{shlex.quote(arguments.job)}"
    index = f"{socket.gethostname()}.{os.getpid()}"
    script = WAIT_THERE.format(base=base, index=index, program=HEAD)
    there = f"exec sh -c {shlex.quote(script)}"
    words = ("ssh", "-p", str(arguments.port), "-o", "BatchMode=yes", *ALIVE, first, there)
    say(f"the ranks of this server are started by mpirun on {first}, which has their output")
    was_let_in = False
    while True:
        said = heard(words, first)
        if said[:3] == ["here", "begun", "ended"] and said[3:]:
            return int(said[3])
        if said and not was_let_in:  # this may have been an old sshd that is being restarted
            was_let_in = True
            end = min(end, time.monotonic() + BACK_SECONDS)
        if "begun" in said or (was_let_in and time.monotonic() > end):
            return fail(f"the connection to {first}, which runs mpirun, was lost")
        if time.monotonic() > end:
            return fail(f"the sshd of {first} has not let us in within {arguments.wait:g} s")
        time.sleep(AGAIN_SECONDS)


def heard(words: Sequence[str], first: str) -> list[str]:
    """What WAIT_THERE prints until it ends, or the connection does."""
    said: list[str] = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as ssh:
        assert ssh.stdout is not None  # noqa: S101
        for line in ssh.stdout:
            said += line.decode(errors="replace").split()
            if said[-1:] == ["begun"]:
                say(f"{first} has begun")
    return said


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--wait", type=float, required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("host")
    return node(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
