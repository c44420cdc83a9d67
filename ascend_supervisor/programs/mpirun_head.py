"""What node 0 of an mpirun job does around mpirun; a program of its own.

    python -I -S mpirun_head.py --port P --wait S --job NAME --slots N --hostfile F HOST...
        -- MPIRUN...

It waits until the sshd of every HOST answers, writes the hostfile, runs mpirun, stores its exit
code for the other nodes to fetch (mpirun_node), in files whose names begin with NAME, and exits
with it. If a host does not answer, it prints a sentence and exits with 69.
"""

from __future__ import annotations

import argparse
import glob
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

UNAVAILABLE = 69
SIGNAL_BASE = 128
AGAIN_SECONDS = 0.5
CONNECT_SECONDS = 5.0
LOOK_SECONDS = 5.0
FETCH_SECONDS = 10.0
"""How long the others may take to fetch the exit code."""
STOPPED_SECONDS = 1.5
"""The same if we were told to stop, because the others probably were, too."""
WAIT_SECONDS = 0.05
ENDS_SECONDS = 1.0
"""mpirun ends within this time after its last rank; else it has ranks elsewhere."""
FOLDER = ".ascend_supervisor"
"""Below the home directory of the ssh user; no other user can read it. mpirun_node knows it."""
FOR_RANKS = frozenset({signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT})
"""mpirun passes these on to all ranks."""


def say(text: str) -> None:
    sys.stdout.write(f"ascend_supervisor: {text}\n")
    sys.stdout.flush()


def fail(text: str) -> int:
    say(text)
    return UNAVAILABLE


def head(arguments: argparse.Namespace, mpirun: Sequence[str]) -> int:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # where an ssh login starts, whatever HOME says
    code_file = home / FOLDER / f"{arguments.job}.exit_code"
    others = len(arguments.hosts) - 1
    if others:
        begin(code_file)
    end = time.monotonic() + arguments.wait
    addresses = []
    for index, host in enumerate(arguments.hosts):
        # On the first host, which is ours, mpirun starts ranks without ssh.
        address = answering(host, arguments.port if index else None, end)
        if address is None:
            return fail(
                f"the sshd of {host}, port {arguments.port}, has not answered within "
                f"{arguments.wait:g} s; look at the log of that server"
            )
        addresses.append(address)
    lines = [f"{address} slots={arguments.slots}\n" for address in addresses]
    Path(arguments.hostfile).write_text("".join(lines))
    code, told_to_stop = run(mpirun)
    if code and not told_to_stop:
        tell_who_is_lost(arguments.hosts[1:], addresses[1:], arguments.port)
    if others:
        leave(code_file, code, others, STOPPED_SECONDS if told_to_stop else FETCH_SECONDS)
        code_file.with_suffix(".pid").unlink(missing_ok=True)
    return code


def begin(code_file: Path) -> None:
    """Let the other nodes see that this one has begun."""
    code_file.parent.mkdir(mode=0o700, exist_ok=True)
    code_file.unlink(missing_ok=True)
    code_file.with_suffix(".pid").write_text(str(os.getpid()))


def answering(host: str, port: int | None, end: float) -> str | None:
    """The address of ``host`` as soon as its sshd answers; None if it does not by ``end``.

    Without a port, its address is enough.
    """
    told = None
    while time.monotonic() < end:
        try:
            address = str(socket.getaddrinfo(host, port, socket.AF_INET)[0][4][0])
            if port is None:
                return address
            if is_sshd(address, port, CONNECT_SECONDS):
                return address
            reason = "what listens there is no sshd"
        except OSError as error:
            reason = error.strerror or str(error)
        if reason != told:
            say(f"waiting for the sshd of {host}: {reason}")
            told = reason
        time.sleep(AGAIN_SECONDS)
    return None


def is_sshd(address: str, port: int, seconds: float) -> bool:
    """Whether an sshd listens there; raises OSError if nothing does."""
    with socket.create_connection((address, port), seconds) as connection:
        return connection.recv(4) == b"SSH-"


def tell_who_is_lost(hosts: Sequence[str], addresses: Sequence[str], port: int) -> None:
    """Say which server mpirun has lost, because mpirun does not."""
    end = time.monotonic() + LOOK_SECONDS
    for host, address in zip(hosts, addresses, strict=True):
        if time.monotonic() > end:
            return
        try:
            is_sshd(address, port, 1.0)
        except OSError:
            say(f"{host} was lost: its sshd does not answer any more; look there for what ended it")


def run(command: Sequence[str]) -> tuple[int, bool]:
    """Run mpirun to its end; returns its exit code, and whether we were told to stop.

    It has a process group of its own, because it ends ranks within 2 s, and at once when another
    one has ended; so the ranks of this server are told to stop by us.
    """
    heard = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *FOR_RANKS}
    # Blocked and waited for: Python would run a handler only after a wait that had just begun.
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    for signal_number in heard:  # nobody sends a signal for ranks to who has no handler for it
        signal.signal(signal_number, no_answer)

    def alone() -> None:
        os.setpgrp()
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)

    mpirun = subprocess.Popen(command, preexec_fn=alone)  # noqa: PLW1509  (no threads here)
    while (code := mpirun.poll()) is None:
        number = signal.sigwait(heard)
        if number in FOR_RANKS:
            tell(mpirun, number)
        elif number != signal.SIGCHLD:
            return exit_code(stop(mpirun, number)), True
    return exit_code(code), False


def no_answer(number: int, _: object) -> None:
    """A handler that is never run, because its signal is blocked."""


def exit_code(returned: int) -> int:
    """As a shell tells it: 128 + n for signal n."""
    return returned if returned >= 0 else SIGNAL_BASE - returned


def stop(mpirun: subprocess.Popen[bytes], number: int) -> int:
    """End the ranks of this server with this signal, then mpirun and what it has elsewhere."""
    told: set[int] = set()
    alone_at = time.monotonic()
    while (code := mpirun.poll()) is None:
        ranks = ranks_of(mpirun.pid)
        for rank in ranks - told:
            with suppress(ProcessLookupError):
                os.killpg(rank, number)
        told |= ranks
        if ranks:
            alone_at = time.monotonic() + ENDS_SECONDS
        elif time.monotonic() >= alone_at:
            mpirun.send_signal(number)
            return mpirun.wait()
        if heard := signal.sigtimedwait(FOR_RANKS, WAIT_SECONDS):
            tell(mpirun, heard.si_signo)
    return code


def ranks_of(mpirun: int) -> set[int]:
    """The ranks that it has on this server; each leads a process group."""
    pids: set[str] = set()
    for children in Path("/proc").glob(f"{mpirun}/task/*/children"):
        with suppress(OSError):
            pids.update(children.read_text().split())
    return {int(pid) for pid in pids if is_rank(pid)}


def is_rank(pid: str) -> bool:
    """Not an ssh to another server, and not mpirun's own fork before it becomes a rank.

    A rank may have overwritten its environment, as setproctitle does; then it still has words.
    """
    variables = content(pid, "environ").split(b"\0")
    is_told = any(word.startswith(b"OMPI_COMM_WORLD_RANK=") for word in variables)
    if not is_told and (any(b"=" in word for word in variables) or not content(pid, "cmdline")):
        return False
    with suppress(OSError):
        return os.getpgid(int(pid)) == int(pid)
    return False


def content(pid: str, name: str) -> bytes:
    """Of its file in /proc; if its main thread has ended, the others show it."""
    own = Path("/proc", pid)
    with suppress(OSError):  # it has ended meanwhile
        for place in chain((own,), own.glob("task/*")):
            with suppress(OSError):
                if found := (place / name).read_bytes():
                    return found
    return b""


def tell(mpirun: subprocess.Popen[bytes], number: int) -> None:
    """Pass a signal on, unless mpirun has no handler yet and would die of it."""
    if catches(mpirun.pid, number):
        mpirun.send_signal(number)
    elif number == signal.SIGQUIT:  # it still asks for the end
        mpirun.terminate()
    else:
        say(f"{signal.Signals(number).name} is dropped: mpirun does not listen to it")


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; one that is gone has none."""
    lines: list[str] = []
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = (line.partition(":")[2] for line in lines if line.startswith("SigCgt:"))
    return bool(int(next(caught, "0"), 16) >> (number - 1) & 1)


def leave(code_file: Path, code: int, others: int, seconds: float) -> None:
    """Let the other nodes fetch the exit code."""
    written = code_file.with_suffix(".new")
    written.write_text(str(code))
    written.replace(code_file)
    end = time.monotonic() + seconds
    fetched = f"{glob.escape(code_file.name)}.fetched.*"
    while len(list(code_file.parent.glob(fetched))) < others and time.monotonic() < end:
        time.sleep(0.05)
    for file in (code_file, *code_file.parent.glob(fetched)):
        file.unlink(missing_ok=True)


def main() -> int:
    words = sys.argv[1:]
    cut = words.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--wait", type=float, required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--hostfile", required=True)
    parser.add_argument("hosts", nargs="+")
    return head(parser.parse_args(words[:cut]), words[cut + 1 :])


if __name__ == "__main__":
    sys.exit(main())
