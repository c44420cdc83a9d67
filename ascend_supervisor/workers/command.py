"""Whether the command of a process can be executed, and finds its script; told before the start.

What the kernel can execute is told by a file's first bytes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from ascend_supervisor.errors import CannotExecute, CommandNotFound, SettingsRefused, Unavailable
from ascend_supervisor.files.regular_file import read_regular_file, reason_of
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.settings.command_words import (
    PYTHON,
    early_option,
    interpreter_of,
    launcher_in_script,
    module_of,
    script_of,
    shell_script_of,
)
from ascend_supervisor.settings.shell_text import MOST_CHARACTERS, switched_on
from ascend_supervisor.untrusted_text import plain, printable

OURSELVES = Path("/proc/self/exe")
OTHER_FORMATS = Path("/proc/sys/fs/binfmt_misc")
_HEAD = 20
_LINE = 256  # BINPRM_BUF_SIZE of Linux 5.1 and later
_MACHINE = (4, 5, 18, 19)
"""Where elf(5) has the class, the byte order and the machine."""


def is_foreign(path: Path) -> bool:
    """Whether the kernel would certainly refuse it (ENOEXEC); False if it cannot be read."""
    with suppress(OSError):
        if set(os.listdir(OTHER_FORMATS)) - {"register", "status"}:  # noqa: PTH208
            return False
    try:
        head, ours = _head(path), _head(OURSELVES)
    except OSError:
        return False
    if head.startswith(b"\x7fELF") and len(head) == _HEAD:
        return any(head[at] != ours[at] for at in _MACHINE)
    return not head.startswith(b"#!")


def missing_interpreter(path: Path) -> str | None:
    """The interpreter that a script names in its first line, if it is missing.

    If the line ends with CR LF, the CR is a part of the last word, as it is for the kernel and for
    env.
    """
    with suppress(OSError), path.open("rb") as file:
        line = file.read(_LINE).partition(b"\n")[0]
        words = os.fsdecode(line.removeprefix(b"#!")).strip(" \t").replace("\t", " ").split(" ")
        if not line.startswith(b"#!"):
            return None
        if words[-1].endswith("\r") and Path(words[0]).name == "env":
            return words[-1]
        if words[0].startswith("/") and not Path(words[0]).exists():
            return words[0]
    return None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


_FOR_SHELL = re.compile(rb"#![^\n]*/(?:env +)?(?:ba|da|k|z)?sh\b")


def check_script(spec: ProcessSpec) -> None:
    """Raise CommandNotFound if the script is where we were started, and only there."""
    if spec.script is None:
        return
    is_there = os.path.exists(spec.cwd / spec.script)  # noqa: PTH110  (never raises)
    if not is_there and (elsewhere := _where_we_are(spec.script)):
        raise CommandNotFound(
            f"{spec.name} starts in {spec.cwd}, where there is no {plain(spec.script)}; {elsewhere}"
        )


def check_exists(spec: ProcessSpec, environ: Mapping[str, str]) -> None:
    """Raise CommandNotFound if the script is nowhere: its interpreter would end at once."""
    if spec.script is None or spec.script.startswith(_OF_A_PROCESS):
        return
    path = os.path.join(spec.cwd, spec.script)  # noqa: PTH118  (Path drops a slash at the end)
    if _is_missing(path) and not _is_in_path(spec, spec.script, environ):
        raise CommandNotFound(
            f"{spec.name} starts in {spec.cwd}, and there is no {plain(spec.script)}"
        )
    if os.path.isdir(path) and not any(Path(path).glob("__main__*")):  # noqa: PTH112
        raise CommandNotFound(
            f"{spec.name} starts in {spec.cwd}, where {plain(spec.script)} is a directory without "
            "a __main__.py"
        )


_OF_A_PROCESS = ("/dev/", "/proc/")
"""Places that differ for each process, such as /dev/stdin."""


def _is_missing(path: str) -> bool:
    """Whether it certainly does not exist: what we may not see, another user may."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_in_path(spec: ProcessSpec, script: str, environ: Mapping[str, str]) -> bool:
    """Whether a shell may find the script in PATH, as bash does; Python does not look there."""
    program = PurePath(interpreter_of(spec.argv)).name
    if "/" in script or (PYTHON.fullmatch(program) and script_of(spec.argv) == script):
        return False
    return shutil.which(script, os.F_OK, environ.get("PATH", os.defpath)) is not None


def check_module(spec: ProcessSpec, environ: Mapping[str, str]) -> None:
    """Raise CommandNotFound if a module (``python -m``) is where we were started, and only there.

    Python looks for it where the rank starts, in PYTHONPATH, and among its packages.
    """
    is_direct = interpreter_of(spec.argv) == spec.argv[0]  # env, conda, uv know other places
    module = module_of(spec.argv) if spec.rank is not None and is_direct else None
    top = (module or "").partition(".")[0]
    if not top:
        return
    here, there = Path(os.path.abspath(os.curdir)), Path(spec.cwd)  # noqa: PTH100
    if _holds_module(there, top) or not _holds_module(here, top):
        return
    searched = [there / folder for folder in environ.get("PYTHONPATH", "").split(":")]
    if any(_holds_module(folder, top) for folder in searched) or _is_package(spec, top, environ):
        return
    raise CommandNotFound(
        f"{spec.name} starts in {there}, where there is no module {plain(top)} (python -m "
        f"{plain(module or '')}); there is one in {plain(str(here))}: give --rank-dir same, so "
        "that ranks start where the supervisor was started, or name that directory with "
        f"--rank-env PYTHONPATH={plain(str(here))}"
    )


def _holds_module(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file()


def _is_package(spec: ProcessSpec, name: str, environ: Mapping[str, str]) -> bool:
    """Whether the interpreter's packages hold it, or name it, as those installed with -e do."""
    word = interpreter_of(spec.argv)
    found = shutil.which(word, path=environ.get("PATH", os.defpath)) or word
    prefixes = {Path(found).parent.parent, Path(found).resolve().parent.parent}
    prefixes |= {Path("/usr/local"), Path(environ.get("HOME", "/nonexistent"), ".local")}
    for prefix in prefixes:
        for packages in prefix.glob("lib*/python3*/*-packages"):
            if _holds_module(packages, name) or any(packages.glob(f"*{name}*")):
                return True
            if any(_leads_to(path, name) for path in packages.glob("*.pth")):
                return True
        if any(prefix.glob(f"lib*/python3*/{name}*")):
            return True
    return False


def _leads_to(path: Path, name: str) -> bool:
    with suppress(OSError):
        lines = read_regular_file(path, MOST_CHARACTERS).decode(errors="replace").splitlines()
        return any(_holds_module(Path(line), name) for line in lines if line.startswith("/"))
    return False


def words_left_behind(spec: ProcessSpec) -> tuple[str, ...]:
    """Words of the command that name a file where we were started, and none where it starts."""
    words = [word.rpartition("=")[2] for word in spec.argv[1:]]
    return tuple(
        word
        for word in dict.fromkeys(words)
        if word not in {"", spec.script}
        and not word.startswith("/")
        and (os.path.isfile(word) or ("/" in word and os.path.isdir(word)))  # noqa: PTH112, PTH113
        and not os.path.exists(spec.cwd / word)  # noqa: PTH110
    )


def left_behind(specs: Sequence[ProcessSpec]) -> str:
    """A sentence for the first process that has such words; empty if none has."""
    for spec in specs:
        if words := words_left_behind(spec):
            return (
                f"{spec.name} starts in {spec.cwd}, where there is no "
                f"{' and no '.join(map(plain, words))}, as there is where the supervisor was "
                "started; if that is meant, give --rank-dir same, or write the whole path"
            )
    return ""


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

    Raises SettingsRefused if the command of a rank is a shell script that starts a launcher, or
    if the command begins among options of ours.
    """
    word = spec.argv[0]
    where = environ.get("PATH", os.defpath)
    found = Path(spec.cwd, word) if "/" in word else shutil.which(word, path=where)
    if found is None:
        if shutil.which(word, os.F_OK, where) is None:
            _check_begin(spec)
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
    if launcher := launcher_in_script(text, switched_on(environ)):
        command = shlex.join(map(printable, spec.argv))
        raise SettingsRefused(
            f"COMMAND: expected the program of a rank, found {plain(script)}, a shell script that "
            f"calls {launcher}, which starts ranks itself; each of the ranks here would call it: "
            f"start it once, with --method once -- {command}"
        )


def _check_begin(spec: ProcessSpec) -> None:
    """Raise SettingsRefused if a word that is no program stands before options of ours."""
    if option := early_option(spec.argv):
        raise SettingsRefused(
            f"COMMAND begins at {spec.argv[0]!r}, which was not found in PATH and is no value of "
            f"an option; {option} behind it is an option of the supervisor: write all of these, "
            "then -- once, then the command, and leave out or correct that word"
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
        where = _where_we_are(word) or f"a relative path starts in {spec.cwd}"
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
