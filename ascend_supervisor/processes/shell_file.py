"""What a shell file changes in the environment: bash sources it, in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote

import anyio

from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.helper_program import Pipe, open_pipe, status_within
from ascend_supervisor.processes.ownership import Known, Ownership
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import description
from ascend_supervisor.processes.secrets import MASK, masked
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.tasks.threads import aside

SECONDS = 60.0
"""How long a file may take."""
SWEEP_SECONDS = 10.0
LAST_LINES = 3
LINE_CHARACTERS = 160
OUTPUT_BYTES = 16384

ENDED_WITH_1 = (
    "; if only its last command gave 1, such as [ -d DIR ] && ..., write true as its last line; or "
    "set -e has ended it"
)

OF_BASH = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Variables that bash sets by itself, besides BASH_*."""

Changes = Mapping[str, str | None]
"""Variables and their new values; None for one that is unset."""


class ShellFileFailed(Exception):
    """The text says how it failed, and what bash wrote last."""


class ProcessesLeft(Exception):
    """Processes that a file has started do not end; the text describes them."""


async def sourced(
    file: Path,
    environ: Mapping[str, str],
    children: Children,
    ownership: Ownership,
    note: Callable[[str], None],
    seconds: float = SECONDS,
) -> Changes:
    """What sourcing ``file`` changes in ``environ``.

    All that it starts has been ended when this returns or is cancelled. Functions that it exports
    are not variables, and are ignored. Where it succeeds, ``note`` is called with a sentence for
    its output, and one for processes that it has left. Raises ShellFileFailed, ProcessesLeft, or
    OSError.
    """
    search = environ.get("PATH", os.defpath)
    bash, env = (shutil.which(name, path=search) for name in ("bash", "env"))
    if bash is None or env is None:
        raise ShellFileFailed(f"bash and env are needed, and not both are in PATH ({search})")
    inherited = {name: value for name, value in environ.items() if name != "BASH_ENV"}
    with open_pipe(OUTPUT_BYTES) as output, open_pipe() as result:
        child = children.spawn(
            (bash, "-c", _script(file, env, result.write_end)),
            environ=inherited,
            cwd=os.curdir,
            output=output.write_end,
            descriptors=(result.write_end,),
        )
        status, left = await _run(child, (output, result), children, ownership, seconds)
        if status != 0 or not result.content:
            raise ShellFileFailed(f"{_end(status, seconds)}{_last_words(output, status)}")
        if left:
            note(f"it left processes, which were killed; do not use what it says of them: {left}")
        if last := _last_lines(output):
            note(f"it succeeded, and its last output is: {last}")
        return changes(inherited, bytes(result.content))


def _script(file: Path, env: str, descriptor: int) -> str:
    """The words for bash. Not ``. FILE ||``: that would ignore a ``set -e`` in the file.

    The file gets no arguments: some files of CANN read them as options.
    """
    source = quote(os.path.abspath(file))  # noqa: PTH100  (follows no link)
    return f". {source}\ncase $? in 0) exec {quote(env)} -0 >&{descriptor} ;; *) exit ;; esac"


def changes(before: Mapping[str, str], listed: bytes) -> Changes:
    """What differs between ``before`` and the variables that ``env -0`` has ``listed``."""
    entries = (entry.partition("=") for entry in os.fsdecode(listed).split("\0") if entry)
    after = {name: value for name, _, value in entries}
    named = {**before, **after}.keys()
    return {
        name: after.get(name)
        for name in sorted(named)
        if after.get(name) != before.get(name)
        and name not in OF_BASH
        and not name.startswith("BASH_")
    }


async def _run(
    child: Child,
    pipes: tuple[Pipe, ...],
    children: Children,
    ownership: Ownership,
    seconds: float,
) -> tuple[int | None, str]:
    """The return code of ``child``, None if it took too long, and what it left if it succeeded.

    Nothing of it is left then. Raises ProcessesLeft.
    """
    left = ""
    leader = Pid.of(child.pid)
    known = Known(frozenset({leader} if leader else ()), frozenset(pipe.name for pipe in pipes))
    try:
        status = await status_within(child, seconds, pipes)
        if status == 0:
            left = await _descriptions(children, ownership, known)
    finally:
        with anyio.CancelScope(shield=True):
            swept = await sweep_descendants(
                children, ownership, known, SWEEP_SECONDS, lambda _: None
            )
    if swept.left:
        raise ProcessesLeft("; ".join(swept.left))
    for pipe in pipes:
        pipe.read()
    return status, left


async def _descriptions(children: Children, ownership: Ownership, known: Known) -> str:
    """The processes that still live; empty if that cannot be seen."""
    with suppress(OSError), children.spare_descriptor():
        alive = [pid.number for pid in ownership.ours(known) if pid.lives]
        return await aside(lambda: "; ".join(map(description, alive)))
    return ""


def _end(status: int | None, seconds: float) -> str:
    if status is None:
        return f"it did not end within {seconds:g} s, and was killed"
    if status == 0:
        return (
            "it ended bash, or stopped it from reading on (exit, exec PROGRAM or set -n), so its "
            "variables are lost; a file to be sourced must do none of these"
        )
    if status < 0:
        return f"bash was killed by {signal.Signals(-status).name}"
    return f"it ended with status {status}"


def _last_words(output: Pipe, status: int | None) -> str:
    if last := _last_lines(output):
        return f"; its last output: {last}"
    hint = ENDED_WITH_1 if status == 1 else ""
    return f"; it has written nothing{hint}"


def _last_lines(output: Pipe) -> str:
    """The end of it on one line, without secrets: ``set -x`` shows values."""
    lines = output.content.decode(errors="backslashreplace").splitlines()
    if output.is_cut:
        lines[0] = MASK  # what masks a value may be cut off
    shown = [masked(line.strip())[:LINE_CHARACTERS] for line in lines if line.strip()]
    return " | ".join(shown[-LAST_LINES:])
