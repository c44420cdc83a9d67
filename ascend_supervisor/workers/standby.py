"""One standby: a process that warms, says that it is ready, and gets the word to become a rank.

The program itself is programs/warm_rank.py. Here is also which command can warm, and what makes a
standby useless: it holds what only one process may have.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from errno import EPERM, ETIMEDOUT
from pathlib import Path
from select import PIPE_BUF

import anyio
import msgspec
from msgspec import Struct

from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.descriptors import open_files
from ascend_supervisor.processes.helper_program import CHUNK_BYTES, open_pipe
from ascend_supervisor.processes.kernel import memory_file
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.scheduling import (
    be_no_victim,
    give_way,
    given_to_children,
    take_part,
)
from ascend_supervisor.processes.tcp_ports import listening_ports
from ascend_supervisor.settings.command_words import PythonProgram, profiler_of, python_program
from ascend_supervisor.tasks.race import first

PROGRAM = Path(__file__).parents[1] / "programs" / "warm_rank.py"
MOST_SAID_BYTES = 65536
"""Of its output before the word; a pipe holds so much."""
ANSWER_SECONDS, ANSWER_LOOKS = 3.0, 6
"""It only reads the word and its script: 12 ms at most while 35 processes shared two CPUs. It is
looked at so often, because a pause of the whole machine takes one look, however long it is."""
QUESTION, THERE = b"?", b"{}"
UNANSWERED = 2
"""Questions that a standby may leave open."""
END_SECONDS = 5.0
SILENT = "it does not answer"
KILLED = "it was killed (SIGKILL), as the kernel does first with standbys when memory runs out"


class Warmed(Struct, frozen=True):
    """What a standby says when it is ready; ``refused`` is half a sentence: why it cannot be."""

    refused: str | None = None


class RankAnswer(Struct, frozen=True):
    """What a standby says to the word; ``cold`` is half a sentence: why it starts cold."""

    cold: str | None


class WarmStart(Struct, frozen=True):
    """What makes a standby a rank: ``argv`` are its script, or ``-m`` and a module, with arguments.

    Text may hold surrogates, as os.environ does.
    """

    environ: Mapping[str, str]
    argv: tuple[str, ...]
    cwd: str


def _made(cwd: Path) -> Path:
    """The directory of a rank, which may be the first to start there; ours if it cannot be made."""
    with suppress(OSError):
        if not (cwd.exists() and cwd.samefile(os.curdir)):
            make_directories(cwd)
        return cwd
    return Path.cwd()


def _identity(number: int, children: Children) -> Pid | None:
    with suppress(OSError), children.spare_descriptor():
        return Pid.of(number)
    return None


class Standby:
    """Of one rank; ``live`` beside it, await ``warmed``, then let it ``become`` one, or ``end`` it.

    ``environ`` is what it was started with.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        program: PythonProgram,
        environ: Mapping[str, str],
        imports: Sequence[str],
        children: Children,
    ) -> None:
        """Start it where the rank starts, or else where we are; raises OSError."""
        self.spec = spec
        self.cwd = str(_made(Path(spec.cwd)))
        self.environ = environ
        self.is_ready = False
        self.program = program
        self.ending = SILENT  # why it is no rank, although it was ready
        self._children = children
        self._told = Warmed()
        self._has_told = anyio.Event()
        self._said = bytearray()
        self._questions = 0  # that are open
        self._rank_output: int | None = None
        self._answer: RankAnswer | None = None
        self._is_over = anyio.Event()
        self._scope = anyio.CancelScope()
        with ExitStack() as opened:
            self._link, theirs = socket.socketpair()
            opened.enter_context(self._link)
            opened.enter_context(theirs)
            self._output = opened.enter_context(open_pipe(MOST_SAID_BYTES))
            imported = [word for name in imports for word in ("--import", name)]
            words = (str(PROGRAM), str(theirs.fileno()), *imported, *program.words)
            with given_to_children(spec.cpus, spec.memory_node):
                self.child: Child = children.spawn(
                    (*program.interpreter, *words),
                    environ=environ,
                    cwd=self.cwd,
                    output=self._output.write_end,
                    descriptors=(theirs.fileno(),),
                )
            theirs.close()
            self._link.settimeout(0)
            self._open = opened.pop_all()
        children.keep(self.child)
        give_way(self.child.pid)
        self.identity = _identity(self.child.pid, children)

    @property
    def lives(self) -> bool:
        return self.child.returncode is None

    async def live(self) -> None:
        """Hear it until it has become a rank or ended; to be run in a task of its own."""
        try:
            with self._open, self._scope:
                await first(self._output.keep_reading, self._listen, self.child.ended)
                await self._hear()  # what it said just before it ended
                await self._end_unheard()
        finally:
            self._is_over.set()
            if self._rank_output is not None:
                os.close(self._rank_output)
                self._rank_output = None

    async def _listen(self) -> None:
        while await self._hear() and self._answer is None:
            await anyio.wait_readable(self._link)

    async def _hear(self) -> bool:
        """Take what it has said; False if it will say no more."""
        is_open = True
        try:
            while chunk := self._link.recv(CHUNK_BYTES):
                self._said += chunk
            is_open = False
        except BlockingIOError:
            pass
        except OSError:
            is_open = False
        while (end := self._said.find(b"\n")) >= 0:
            await self._take(bytes(self._said[:end]))
            del self._said[: end + 1]
        return is_open

    async def _take(self, line: bytes) -> None:
        if not self._has_told.is_set():
            self._take_warmed(line)
            return
        if line == THERE:
            self._questions = 0
            return
        try:
            answer = msgspec.json.decode(line, type=RankAnswer)
        except msgspec.DecodeError:
            self._scope.cancel()
            return
        if answer.cold is None:
            await self._pass_on()
            self._link.send(b"\n")
        self._answer = answer

    def _take_warmed(self, line: bytes) -> None:
        try:
            told = msgspec.json.decode(line, type=Warmed)
        except msgspec.DecodeError:
            told = Warmed(refused="it says nothing that can be understood")
        if told.refused is None and not take_part(self.child.pid):
            told = Warmed(refused="it cannot get the priority of a rank")
        self._tell(told)

    def _tell(self, told: Warmed) -> None:
        self._told, self.is_ready = told, told.refused is None
        self._has_told.set()

    async def _pass_on(self) -> None:
        """What it has printed so far goes to the rank's output, where nobody else writes yet."""
        said = self._output.content
        self._output.read()
        while said and self._rank_output is not None:
            await anyio.wait_writable(self._rank_output)
            del said[: os.write(self._rank_output, said[:PIPE_BUF])]

    async def _end_unheard(self) -> None:
        """If it has ended before it was a rank: tell how; the output of a rank is not lost."""
        if self._answer is not None:
            return
        if self._rank_output is not None and not self.is_ready:
            await self._pass_on()
        with anyio.move_on_after(END_SECONDS):
            await self.child.ended()
        is_killed = self.child.returncode == -signal.SIGKILL
        self.ending = KILLED if is_killed else "it has ended by itself"
        if not self._has_told.is_set():
            self._tell(Warmed(refused=KILLED if is_killed else "its imports have ended it"))

    async def warmed(self) -> Warmed:
        """Return when its imports are made, or have ended it; it then takes part as ranks do."""
        await self._has_told.wait()
        return self._told

    def ask(self) -> bool:
        """Ask whether it is there, to be called every few seconds; False if it leaves that open."""
        if self.is_ready:
            self._questions += 1
            with suppress(OSError):
                self._link.send(QUESTION)
        return self._questions <= UNANSWERED

    async def become(self, start: WarmStart, output: int) -> RankAnswer | None:
        """Say the word: from now on it is a rank, and writes to the pipe ``output``.

        What it has printed so far is written there first. Returns when it has answered; at once,
        and None, if it still makes its imports. Raises OSError; then it is of no use.
        """
        if not (be_no_victim(self.child.pid) and (self.is_ready or take_part(self.child.pid))):
            raise PermissionError(EPERM, "it cannot get the priority of a rank")
        number = memory_file(json.dumps(msgspec.to_builtins(start)).encode())
        try:
            socket.send_fds(self._link, [b"\n"], [output, number])
        finally:
            os.close(number)
        self._rank_output = os.dup(output)
        if self.is_ready:
            for _ in range(ANSWER_LOOKS):
                with anyio.move_on_after(ANSWER_SECONDS / ANSWER_LOOKS):
                    await self._is_over.wait()
                    break
            if self._answer is None:
                raise TimeoutError(ETIMEDOUT, self.ending)
        self._children.keep_no_longer(self.child)
        return self._answer

    def end(self) -> None:
        """Kill it and all in its session that it has started, if it lives; it is no longer kept."""
        self._children.keep_no_longer(self.child)
        if self.lives:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, signal.SIGKILL)
        self._scope.cancel()


AT_EXEC = ("LD_", "GLIBC_TUNABLES", "GCONV_PATH", "PYTHON", "ASCEND_", "LC_", "CONDA_")
"""How variables begin that the interpreter, or a library that is imported, reads once."""
ALSO_AT_EXEC = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV"})


def warm_program(spec: ProcessSpec) -> PythonProgram | str:
    """The program of a rank that can wait as a standby, or half a sentence: why there is none."""
    if spec.rank is None or spec.workers or spec.own_words or spec.descriptors:
        return f"{spec.name} is not a rank that the supervisor starts itself"
    found = python_program(spec.argv)
    if found is None:
        return "COMMAND does not begin with python and a script or a module (-m)"
    if profiler := profiler_of(found):
        return f"{profiler} runs the script, and must see its imports"
    return found


def read_too_early(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that a standby has read ``before``, and that are others ``now``."""
    others = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    return tuple(sorted(filter(_is_read_early, others)))


def _is_read_early(name: str) -> bool:
    return name.startswith(AT_EXEC) or name in ALSO_AT_EXEC


CANN = re.compile(rb"/lib(?:ascend\w*|a?log|slog|runtime|hccl\w*)\.so")
HARMLESS_DEVICES = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")
)
SHARED_MEMORY = "/dev/shm/"  # noqa: S108  (nothing is written there)


def obstacle(pid: int, root: Path = proc.PROC) -> str | None:
    """Half a sentence: why the process may not become a rank; None if it may.

    Raises OSError at EMFILE and the like.
    """
    files = open_files(pid, root)
    if devices := sorted(filter(_is_device, files)):
        return f"its imports have opened {devices[0]}"
    if started := proc.children(pid, root):
        return f"its imports have started {proc.description(started[0], root)}"
    if ports := listening_ports(frozenset(files), root):
        return f"its imports listen at port {ports[0]}"
    return None


def _is_device(path: str) -> bool:
    is_other = path in HARMLESS_DEVICES or path.startswith((SHARED_MEMORY, "/dev/pts/"))
    return path.startswith("/dev/") and not is_other


def has_cann(pid: int, root: Path = proc.PROC) -> bool:
    """Whether it has loaded a library of CANN, and may have read where that logs."""
    return CANN.search(proc.read(f"{root}/{pid}/maps")) is not None
