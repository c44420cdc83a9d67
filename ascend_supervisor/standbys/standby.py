"""One standby: a process that warms, says that it is ready, and gets the word to become a rank.

The program itself is programs/warm_rank.py.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from errno import EPERM
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.processes.affinity import given_to_children
from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.kernel import memory_file
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.pipe import CHUNK_BYTES, open_pipe
from ascend_supervisor.processes.priority import give_way, take_part
from ascend_supervisor.settings.command_words import PythonProgram
from ascend_supervisor.tasks.race import first

PROGRAM = Path(__file__).parents[1] / "programs" / "warm_rank.py"
MOST_SAID_BYTES = 65536
"""Of its output before the word; a pipe holds so much, so that handing it on never blocks."""


class Warmed(Struct, frozen=True):
    """What a standby says when it is ready; ``refused`` is half a sentence: why it cannot be."""

    refused: str | None = None


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


class Standby:
    """Of one rank; ``live`` beside it, await ``warmed``, then ``become`` it, or ``end``.

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
        self.interpreter = program.interpreter
        self.is_ready = False
        self._children = children
        self._told = Warmed()
        self._has_told = anyio.Event()
        self._scope = anyio.CancelScope()
        with ExitStack() as opened:
            self._link, theirs = socket.socketpair()
            opened.enter_context(self._link)
            opened.enter_context(theirs)
            self._output = opened.enter_context(open_pipe(MOST_SAID_BYTES))
            bound = given_to_children(spec.cpus, spec.memory_node)
            imported = [word for name in imports for word in ("--import", name)]
            words = (str(PROGRAM), str(theirs.fileno()), *imported, *program.words)
            with bound:
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
        self.identity: Pid | None = None
        with suppress(OSError), children.spare_descriptor():
            self.identity = Pid.of(self.child.pid)

    @property
    def lives(self) -> bool:
        return self.child.returncode is None

    async def live(self) -> None:
        """Hear it until it becomes a rank or ends; to be run in a task of its own."""
        with self._open, self._scope:
            await first(self._output.keep_reading, self._listen)

    async def _listen(self) -> None:
        said = bytearray()
        while chunk := await self._received():
            said += chunk
            if said.endswith(b"\n") and not self._has_told.is_set():
                self._take(bytes(said))
        if not self._has_told.is_set():
            self._tell(Warmed(refused="its imports have ended it"))

    async def _received(self) -> bytes:
        await anyio.wait_readable(self._link)
        with suppress(OSError):
            return self._link.recv(CHUNK_BYTES)
        return b""

    def _take(self, said: bytes) -> None:
        try:
            told = msgspec.json.decode(said, type=Warmed)
        except msgspec.DecodeError:
            told = Warmed(refused="it says nothing that can be understood")
        if told.refused is None and not take_part(self.child.pid):
            told = Warmed(refused="it cannot get the priority of a rank")
        self._tell(told)

    def _tell(self, told: Warmed) -> None:
        self._told, self.is_ready = told, told.refused is None
        self._has_told.set()

    async def warmed(self) -> Warmed:
        """Return when its imports are made, or have ended it; it then takes part as ranks do."""
        await self._has_told.wait()
        return self._told

    def become(self, start: WarmStart, output: int) -> None:
        """Say the word: from now on it is a rank, and writes to the pipe ``output``.

        Raises OSError. What it has printed so far is written there first.
        """
        if not self.is_ready and not take_part(self.child.pid):
            raise PermissionError(EPERM, "it cannot get the priority of a rank")
        self._output.read()
        os.write(output, self._output.content[-MOST_SAID_BYTES:])
        number = memory_file(json.dumps(msgspec.to_builtins(start)).encode())
        try:
            socket.send_fds(self._link, [b"\n"], [output, number])
        finally:
            os.close(number)
        self._children.keep_no_longer(self.child)
        self._scope.cancel()

    def end(self) -> None:
        """Kill it and all in its session that it has started, if it lives; it is no longer kept."""
        self._children.keep_no_longer(self.child)
        if self.lives:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, signal.SIGKILL)
        self._scope.cancel()
