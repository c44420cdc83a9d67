"""The user's own check of the server (--server-check CMD), in place of ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from msgspec import Struct

from ascend_supervisor.doctor.check import Checked, fit, unfit, unknown
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.regular_file import reason_of, write_atomically
from ascend_supervisor.life import Plan
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.process_spec import changed
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.helper_program import ProgramSaid, Question, answer_to
from ascend_supervisor.processes.secrets import masked
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import clipped, printable

SUBJECT = "--server-check"
RANK = "{rank}"
SECONDS = 60.0
OUTPUT_BYTES = 256 * 1024
"""Of each process: the end of what it has printed is kept."""
LINE_CHARACTERS = 300
FILE_MODE = 0o640

Environ = Mapping[str, str | None]
"""Changes to the environment; None removes a variable."""


class UsersCommand(Struct, frozen=True):
    """It runs once, or once for each rank if a word of it holds ``{rank}``; 0 is fit.

    It starts in ``cwd`` with the environment of the ranks, and what it prints is in the file
    ``output``, in which nothing is written where nothing was printed. ``sweep`` ends what it
    leaves behind.
    """

    words: Sequence[str]
    children: Children
    environ: Mapping[str, str]
    cwd: str
    output: Path
    sweep: Callable[[], Awaitable[object]]
    seconds: float = SECONDS

    @property
    def is_for_ranks(self) -> bool:
        return any(RANK in word for word in self.words)

    async def early(self) -> Checked:
        """What it says of the server."""
        if self.is_for_ranks:
            return Checked()
        return await self._checked({SUBJECT: Question(self.words, self.environ, *self._limits)})

    async def late(self, plan: Plan, early: Checked) -> Checked:
        """What it says of the ranks, or has said of the server; raises SettingsRefused."""
        if not self.is_for_ranks:
            return early
        environs = environs_of_ranks(plan)
        if not environs:
            raise SettingsRefused(
                f"{SUBJECT}: {RANK} stands for each rank of this server, and nothing tells which "
                f"these are; leave {RANK} out, and the command runs once"
            )
        return await self._checked(
            {
                f"{SUBJECT}, rank {rank}": Question(
                    tuple(word.replace(RANK, str(rank)) for word in self.words),
                    changed(self.environ, environ),
                    *self._limits,
                )
                for rank, environ in environs.items()
            }
        )

    @property
    def _limits(self) -> tuple[float, int, None, str]:
        return self.seconds, OUTPUT_BYTES, None, self.cwd

    async def _checked(self, asked: Mapping[str, Question]) -> Checked:
        """A row for each, in the order of ``asked``."""
        answers: dict[str, ProgramSaid | OSError] = {}

        async def ask(subject: str, question: Question) -> None:
            try:
                answers[subject] = await answer_to(question, self.children)
            except OSError as error:
                answers[subject] = error

        try:
            async with anyio.create_task_group() as tasks:
                for subject, question in asked.items():
                    tasks.start_soon(ask, subject, question)
        finally:
            with anyio.CancelScope(shield=True):
                await self.sweep()
        said = {subject: answers[subject] for subject in asked}
        output = await aside(partial(_written, self.output, said))
        rows = (self._row(subject, answer, output) for subject, answer in said.items())
        return Checked(tuple(rows), None if output is None else str(output))

    def _row(self, subject: str, answer: ProgramSaid | OSError, output: Path | None) -> Result:
        name = printable(self.words[0])  # without its arguments, which may hold secrets
        if isinstance(answer, OSError):
            return unknown(subject, f"{name} cannot be started: {reason_of(answer)}")
        if answer.status == 0:
            return fit(subject, f"that {name} has ended with status 0")
        end = f"has not ended within {self.seconds:g} s, and was killed"
        if answer.status is not None:
            end = str(ExitStatus.of(answer.status))
        last = _last_line(answer.output)
        said = f" (its last output: {last})" if last else ""
        remedy = "start it elsewhere" if output is None else f"see {output}, or start it elsewhere"
        return unfit(subject, f"that {name} {end}{said}", "status 0", remedy)


def environs_of_ranks(plan: Plan) -> dict[int, Environ]:
    """The variables of each rank of this server, by rank.

    Where a launcher starts the ranks: those of the launcher, and the places of the rank.
    """
    known = {spec.rank: spec.environ for spec in plan.specs if spec.rank is not None}
    if known:
        return known
    start = plan.start
    launchers = (spec.environ for spec in plan.specs if spec.significant)
    environ, size = next(launchers, {}), str(start.found.table.world_size)
    return {
        rank: {
            **environ,
            **dict.fromkeys(("RANK", "RANK_ID"), str(rank)),
            **dict.fromkeys(("LOCAL_RANK", "DEVICE_ID"), str(local_rank)),
            **dict.fromkeys(("WORLD_SIZE", "RANK_SIZE"), size),
        }
        for local_rank, rank in enumerate(start.local_ranks)
    }


def _written(path: Path, said: Mapping[str, ProgramSaid | OSError]) -> Path | None:
    """The file, if it could be written."""
    outputs = {subject: one.output for subject, one in said.items() if isinstance(one, ProgramSaid)}
    pages = (f"{subject}:\n".encode() + text for subject, text in outputs.items() if text)
    text = b"\n".join(pages)
    try:
        if text:
            write_atomically(path, text, FILE_MODE)
    except OSError:  # the sentence has its last line
        return None
    return path if text else None


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="backslashreplace").splitlines()
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return clipped(printable(masked(said)), LINE_CHARACTERS)
