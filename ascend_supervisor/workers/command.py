"""Whether the command of a process can be executed, and finds its script; told before the start."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.errors import (
    CannotExecute,
    CommandNotFound,
    SettingsRefused,
    Unavailable,
)
from ascend_supervisor.files.executable import is_foreign, missing_interpreter
from ascend_supervisor.files.reasons import reason_of
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.settings.command_words import launcher_in_script, shell_script_of
from ascend_supervisor.settings.shell_text import MOST_CHARACTERS
from ascend_supervisor.untrusted_text import plain, printable

_FOR_SHELL = re.compile(rb"#![^\n]*/(?:env +)?(?:ba|da|k|z)?sh\b")


def check_script(spec: ProcessSpec) -> None:
    """Raise CommandNotFound if the script is where we were started, and not where it is looked for.

    A script that is nowhere is left to its interpreter: a file system may come late.
    """
    if spec.script is None:
        return
    is_there = os.path.exists(spec.cwd / spec.script)  # noqa: PTH110  (never raises)
    if not is_there and (elsewhere := _where_we_are(spec.script)):
        raise CommandNotFound(
            f"{spec.name} starts in {spec.cwd}, where there is no {plain(spec.script)}; {elsewhere}"
        )


def _where_we_are(file: str) -> str | None:
    """What to do if ``file`` is where the supervisor was started; None if it is not."""
    path = os.path.abspath(file)  # noqa: PTH100  (resolve would follow symlinks)
    if not os.path.exists(path):  # noqa: PTH110
        return None
    return (
        f"there is {plain(path)}: give --rank-dir same, so that ranks start where the supervisor "
        "was started, or write the whole path"
    )


def check_command(spec: ProcessSpec, environ: Mapping[str, str]) -> None:
    """Raise CommandNotFound or CannotExecute now, rather than a wrapper's status later.

    Raises SettingsRefused if the command of a rank is a shell script that starts a launcher.
    """
    word = spec.argv[0]
    where = environ.get("PATH", os.defpath)
    found = Path(spec.cwd, word) if "/" in word else shutil.which(word, path=where)
    if found is None:
        if shutil.which(word, os.F_OK, where) is None:
            why = (
                _as_one_word(word)
                or f"was not found in PATH ({where}){_too_early(spec)}{_beside(spec)}"
            )
            raise CommandNotFound(f"{spec.name}: {word!r} {why}")
        raise CannotExecute(f"{spec.name}: {word!r} in PATH ({where}) is not executable")
    try:
        _check_program(spec, Path(found))
    except OSError as error:
        if lacking := scarcity(error):
            raise Unavailable(f"{spec.name}: cannot look for {word!r}: {lacking}") from error
        raise CannotExecute(
            f"{spec.name}: {word!r} cannot be executed: {reason_of(error)} ({found})"
        ) from error
    if spec.rank is not None and (script := shell_script_of(spec.argv)):
        _check_launched(spec, script, environ)


def _check_launched(spec: ProcessSpec, script: str, environ: Mapping[str, str]) -> None:
    """Raise SettingsRefused if a rank is a shell script that starts ranks itself in any case."""
    text = ""
    with suppress(OSError):
        content = read_regular_file(Path(spec.cwd, script), MOST_CHARACTERS)
        is_for_shell = script.endswith("sh") or _FOR_SHELL.match(content)
        text = content.decode(errors="replace") if is_for_shell else ""
    if launcher := launcher_in_script(text, environ):
        command = shlex.join(map(printable, spec.argv))
        raise SettingsRefused(
            f"COMMAND: expected the program of a rank, found {plain(script)}, a shell script that "
            f"calls {launcher}, which starts ranks itself; each of the ranks here would call it: "
            f"start it once, with --method once -- {command}"
        )


def _beside(spec: ProcessSpec) -> str:
    """Where else a launcher was looked for, which comes with a framework."""
    if not spec.workers:
        return ""
    return (
        ", nor beside the interpreter that the command names, nor in its packages; name the one "
        "that has it: -- /path/to/python train.py"
    )


def _too_early(spec: ProcessSpec) -> str:
    """What a word before -- was taken for."""
    if spec.argv[1:2] != ("--",):
        return ""
    return "; it stands before --, but is no value of an option, so it was taken for the command"


def _as_one_word(word: str) -> str | None:
    """What to write if the word, which names no program, is a whole command; None if it is not."""
    if len(word.split()) < 2:  # noqa: PLR2004
        return None
    return (
        "is one word and no program; it looks like a whole command: write it without quotes "
        f"(-- {printable(word)}), or -- bash -c {shlex.quote(printable(word))} if a shell is to "
        "read it"
    )


def _check_program(spec: ProcessSpec, path: Path) -> None:
    word = spec.argv[0]
    if not path.exists():
        if why := _as_one_word(word):
            raise CommandNotFound(f"{spec.name}: {word!r} {why}")
        where = _where_we_are(word) or "a relative path starts in the rank's working directory"
        raise CommandNotFound(f"{spec.name}: there is no {word!r} (looked for {path}); {where}")
    if path.is_dir():
        raise CannotExecute(f"{spec.name}: {word!r} is a directory, not a program ({path})")
    if not os.access(path, os.X_OK):
        raise CannotExecute(f"{spec.name}: {word!r} is not executable (chmod +x {path})")
    interpreter = missing_interpreter(path)
    if interpreter and interpreter.endswith("\r"):
        raise CommandNotFound(
            f"{spec.name}: {word!r} has lines that end as on Windows (CRLF), so that its "
            f"interpreter {interpreter!r} does not exist; convert it: sed -i 's/\\r$//' {path}"
        )
    if interpreter:
        raise CommandNotFound(
            f"{spec.name}: {word!r} begins with #!{interpreter}, which was not found ({path})"
        )
    if is_foreign(path):  # a wrapper would run it as a shell script
        raise CannotExecute(
            f"{spec.name}: {word!r} cannot be executed: it is neither a program for this machine "
            f"nor a script that begins with #! ({path})"
        )
