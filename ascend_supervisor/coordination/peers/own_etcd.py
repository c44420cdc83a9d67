"""The process of the job's own etcd: words, directory, log, end; started again some times."""

from __future__ import annotations

import platform
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.errors import CannotWrite, Unavailable
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.etcd.values import Get, Key
from ascend_supervisor.events import Report
from ascend_supervisor.events.own_etcd import EtcdEnded, EtcdStarted
from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.output.pump import Pump, Sink
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.guardian_link import Guardian
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import plain

PROGRAM = "etcd"
MISSING = (
    "--peers first: etcd was not found in PATH, and this is the first server, which starts it; "
    "install it (Debian and Ubuntu: apt-get install etcd-server; else a binary from "
    "https://github.com/etcd-io/etcd/releases), or name an etcd that runs already: "
    "--peers=http://HOST:2379"
)
GO_ARCHITECTURES = {"aarch64": "arm64"}
"""By the machine's name: those for which etcd 3.4 wants a word that it may run there."""


def command(program: str, serves: Endpoint, data: PurePath) -> tuple[str, ...]:
    """The words of an etcd of one member, which serves clients at one address.

    Other members would connect through a socket in ``data``, which must be its working directory:
    it needs no other port. etcd makes the socket's name of the URL.
    """
    peers = "http://127.0.0.1:0"  # a name that nobody connects to
    return (
        program,
        "--name=first",
        f"--data-dir={data}",
        f"--listen-client-urls={serves}",
        f"--advertise-client-urls={serves}",
        "--listen-peer-urls=unix://peer:0",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=first={peers}",
        "--auto-compaction-retention=1h",  # nobody reads what is older
        "--logger=zap",
        "--log-outputs=stderr",
        "--log-level=warn",
    )


def environment(machine: str) -> Mapping[str, str]:
    """All of its environment: variables of ours (ETCD_...) would be options.

    Its data end with the job, and a process that is killed loses nothing that it has written: so it
    need not wait for the disk. Versions that do not know this ignore the variable.
    """
    variables = {"ETCD_UNSAFE_NO_FSYNC": "true"}
    if machine in GO_ARCHITECTURES:
        variables["ETCD_UNSUPPORTED_ARCH"] = GO_ARCHITECTURES[machine]
    return variables


class Surroundings(Struct, frozen=True):
    """What a process of the whole job runs with here; ``log`` and ``data`` are etcd's.

    ``find`` gives the path of a program, None if it is not installed.
    """

    children: Children
    guardian: Guardian
    logs: RankLogs
    log: Path
    data: Path
    find: Callable[[str], str | None]
    clock: Clock
    report: Report


DATA_MODE = 0o700
KILL_SECONDS = 10.0
"""How long it may take to die; it writes to a disk, which may hang."""
DISK_SECONDS = 10.0


class EtcdProcess:
    """One etcd; ``start`` it, and once more after each ``ended``; at last ``end``.

    ``tasks`` pass on what it prints; they must go on until ``end`` has returned.
    """

    def __init__(
        self, program: str, serves: Endpoint, machine: Surroundings, tasks: TaskGroup
    ) -> None:
        self._machine = machine
        self._serves = serves
        self._tasks = tasks
        self._spec = ProcessSpec(
            argv=command(program, serves, machine.data),
            cwd=machine.data,
            log=machine.log,
            title="the job's etcd",
        )
        self._child: Child | None = None
        self._over = anyio.Event()
        self._starts = 0
        self._has_data = False
        self.last_line = ""
        """The last that it has printed, once it has ended."""

    @property
    def runs(self) -> bool:
        return self._child is not None and self._child.returncode is None

    async def prepare(self) -> None:
        """An empty directory, readable only to us, and an open log.

        What an earlier job has left there is deleted. Raises CannotWrite, or Unavailable.
        """
        data, log = self._machine.data, self._machine.log
        self._has_data = True
        with anyio.move_on_after(DISK_SECONDS):
            await aside(partial(_make_anew, data, log.parent))
            await self._machine.logs.open([self._spec])
            return
        raise Unavailable(
            f"--peers first: the file system of {plain(str(data))} does not answer within "
            f"{DISK_SECONDS:g} s"
        )

    def start(self) -> None:
        """Start it on its data; raises OSError. Until it has ended, no sweep ends it."""
        self._starts += 1
        machine, spec = self._machine, self._spec
        log = machine.logs.noted(spec, f"start {self._starts} of {spec.name}")
        sink = Sink(log, None, machine.clock)
        pump = Pump(sink)
        with pump.write_end() as write_end:
            child = machine.children.spawn(
                spec.argv,
                environ=environment(platform.machine()),
                cwd=str(spec.cwd),
                output=write_end,
            )
        machine.children.keep(child)
        if not machine.children.die_with_us:
            machine.guardian.watch(Pid.of(child.pid))
        self._child, self._over = child, anyio.Event()
        self._tasks.start_soon(self._pass_on, child, pump, sink)
        paths = plain(str(machine.log)), plain(str(machine.data))
        machine.report(EtcdStarted(str(self._serves), child.pid, *paths))

    async def ended(self) -> str:
        """How the process that was started last has ended, such as "exited with status 1"."""
        await self._over.wait()
        assert self._child is not None  # noqa: S101  (it was started)
        return str(ExitStatus.of(await self._child.ended()))

    async def end(self) -> None:
        """Kill it, and delete its data: nobody needs them after the job."""
        child = self._child
        if child is not None and child.returncode is None and (found := Pid.of(child.pid)):
            found.send(signal.SIGKILL)
            with anyio.move_on_after(KILL_SECONDS):
                await child.ended()
        if self._has_data:
            with anyio.move_on_after(DISK_SECONDS):
                await aside(partial(shutil.rmtree, self._machine.data, ignore_errors=True))

    async def _pass_on(self, child: Child, pump: Pump, sink: Sink) -> None:
        """What it prints goes to its log."""
        try:
            await first(pump.run, child.ended)
            await child.ended()
        finally:
            pump.finish()
            self.last_line = next((line for line in reversed(sink.last_lines) if line), "")
            self._over.set()


def _make_anew(data: Path, log_dir: Path) -> None:
    """Raises CannotWrite."""
    try:
        make_directories(log_dir)
        make_directories(data.parent)
        if data.is_dir() and not data.is_symlink():
            shutil.rmtree(data)
        data.mkdir(DATA_MODE)  # refuses what somebody else has put there meanwhile
    except OSError as error:
        raise CannotWrite(
            f"--peers first: cannot make the directory of etcd's data, {plain(str(data))}: "
            f"{reason_of(error)}; choose another one with --state-file"
        ) from error


START_SECONDS = 60.0
"""Until it answers for the first time; it elects itself in a second or two."""
LOOK_SECONDS = 0.1
FIRST_PAUSE_SECONDS = 1.0
STEADY_SECONDS = 60.0
"""After so long a run the tries are counted anew."""
MOST_TRIES = 5


class Pauses(Struct, frozen=True):
    """How often it has ended soon after its start, and so how long to wait before the next one."""

    tries: int = 0

    def after(self, uptime: float) -> Pauses:
        """After a run of ``uptime`` seconds."""
        return Pauses(1 if uptime >= STEADY_SECONDS else self.tries + 1)

    @property
    def seconds(self) -> float | None:
        """1, 2, 4 and so on; None: it is not tried again."""
        if self.tries > MOST_TRIES:
            return None
        return float(FIRST_PAUSE_SECONDS * 2 ** (self.tries - 1))


async def start_first(process: EtcdProcess, etcd: Etcd, machine: Surroundings) -> None:
    """Start it, and wait until it answers; raises Unavailable if it does not."""
    try:
        process.start()
    except OSError as error:
        raise Unavailable(f"--peers first: etcd cannot be started: {reason_of(error)}") from error
    how: str | None = f"has not answered within {START_SECONDS:g} s"
    with anyio.move_on_after(START_SECONDS):
        how = await first(process.ended, partial(_answered, etcd))
    if how is not None:
        last = f": {plain(process.last_line)}" if process.last_line else ""
        log = plain(str(machine.log))
        raise Unavailable(f"--peers first: etcd {how}{last}; see its log, {log}")


async def keep(process: EtcdProcess, machine: Surroundings) -> None:
    """Start it again whenever it has ended; returns when it is not tried again."""
    pauses = Pauses()
    began = machine.clock.elapsed()
    how = await process.ended()
    while True:
        pauses = pauses.after(machine.clock.elapsed() - began)
        machine.report(EtcdEnded(how, plain(str(machine.log)), pauses.seconds))
        if pauses.seconds is None:
            return
        await anyio.sleep(pauses.seconds)
        began = machine.clock.elapsed()
        how = await _again(process)


async def _again(process: EtcdProcess) -> str:
    try:
        process.start()
    except OSError as error:
        return f"cannot be started: {reason_of(error)}"
    return await process.ended()


async def _answered(etcd: Etcd) -> None:
    while True:
        with suppress(EtcdError):
            await etcd.read(Get(Key(records.job_prefix(""))))
            return
        await anyio.sleep(LOOK_SECONDS)
