"""What COMMAND starts, told by its words, and why it may be refused; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.values import Method
from ascend_supervisor.untrusted_text import shown

PYTHON = re.compile(r"python(\d+(\.\d+)*)?", re.ASCII)

_LAUNCHERS: Mapping[str, Method] = {
    "torchrun": "torchrun",
    "msrun": "msrun",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "python -m torch.distributed.run": "torchrun",
    "python -m torch.distributed.launch": "torchrun",
    "python -m mindspore.parallel.cluster.run": "msrun",
}
_ALLOWED: Mapping[Method, frozenset[Method]] = {
    "once": frozenset(_LAUNCHERS.values()),
    "mpirun": frozenset({"torchrun", "msrun"}),  # with one slot for each server
}
_FLAGS = frozenset(option.flag for option in OPTIONS)
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_STARTS_ANOTHER: Mapping[str, frozenset[str]] = {
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "nice": frozenset({"-n", "--adjustment"}),
    "stdbuf": frozenset({"-i", "--input", "-o", "--output", "-e", "--error"}),
}
"""Programs that become the command after their options, and the options with a value."""
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
"""Options of shells whose value is the next word."""
_ENDS_OPTIONS = re.compile(r"-[^-WXcm]*([WXcm])(.*)", re.DOTALL)
"""Short options of Python up to one that takes a value, and the value if it is in the same word."""


_SOURCE = (
    "write --env-from FILE -- COMMAND to give ranks what the file sets, or "
    "-- bash -c 'source FILE && exec COMMAND'"
)
_VARIABLE = "write --rank-env NAME=VALUE -- COMMAND"
_INSTEAD_OF_BUILTINS = {
    "source": _SOURCE,
    ".": _SOURCE,
    "export": _VARIABLE,
    "set": "write -- bash -c 'set OPTIONS && COMMAND'",
    "ulimit": "write -- bash -c 'ulimit OPTIONS && exec COMMAND'",
    "exec": "leave exec out: the supervisor starts the command itself",
    "cd": (
        "write -- bash -c 'cd DIRECTORY && exec COMMAND', or see --rank-dir for where ranks start"
    ),
}
"""What to write where the first word of the command is a builtin of the shell."""


def command_fault(method: Method, command: Sequence[str]) -> str | None:
    """Why ``method`` cannot start the command, in a sentence; None if it can."""
    if command[0] == "--" or command[0].partition("=")[0] in _FLAGS:
        found = "a second --" if command[0] == "--" else f"{shown(command[0])}, an option"
        return (
            f"COMMAND: expected a program, found {found}; write -- once, after the options of the "
            "supervisor: -- python3 train.py"
        )
    if _ASSIGNS.fullmatch(command[0]):
        name = command[0].partition("=")[0]  # the value may be a secret
        return (
            f"COMMAND: expected a program, found {name}=..., which only a shell reads; {_VARIABLE}"
        )
    if instead := _INSTEAD_OF_BUILTINS.get(command[0]):
        return f"{command[0]} is a word of the shell, and the command runs without one; {instead}"
    return nested_launcher(method, command)


def nested_launcher(method: Method, command: Sequence[str]) -> str | None:
    """A sentence if ``method`` would start a launcher as a rank; None if not.

    What a shell reads (``bash -c``) is not examined.
    """
    words = _program(command)
    launcher = _LAUNCHERS.get(words)
    if launcher is None or launcher in _ALLOWED.get(method, ()):
        return None
    return (
        f"COMMAND: --method {method} expected the program of a rank, found {words}, which starts "
        f"ranks itself; let the supervisor call it: --method {launcher} -- train.py ..., or start "
        f"it as it is: --method once -- {words} ..."
    )


def script_of(command: Sequence[str]) -> str | None:
    """The script that Python or a shell is to run, as the command names it; None without one."""
    first, *words = _behind_others(command)
    name = PurePath(first).name
    if name in _SHELLS:
        return _shell_script(words)
    return _run_by_python(words).script or None if PYTHON.fullmatch(name) else None


def _behind_others(command: Sequence[str]) -> Sequence[str]:
    """The command without the programs that only start it, such as ``env A=1`` and ``nohup``."""
    words = list(command)
    while words and (name := PurePath(words[0]).name) in _STARTS_ANOTHER:
        del words[0]
        while words and (words[0].startswith("-") or (name == "env" and "=" in words[0])):
            option = words.pop(0)
            if option in _STARTS_ANOTHER[name]:
                del words[:1]
    return words or command


def _program(command: Sequence[str]) -> str:
    """The program's name, or ``python -m`` and a module; empty for code in the command itself."""
    first, *words = _behind_others(command)
    name = PurePath(first).name
    if not PYTHON.fullmatch(name):
        return name
    run = _run_by_python(words)
    return f"python -m {run.module}" if run.module else PurePath(run.script).name


class _RunByPython(Struct, frozen=True):
    """A module or a script; both are empty for code in the command itself, or from stdin."""

    module: str = ""
    script: str = ""


def _run_by_python(words: Sequence[str]) -> _RunByPython:
    """``words`` follow the interpreter."""
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            return _RunByPython(script=word)
        found = _ENDS_OPTIONS.fullmatch(word)
        if found is None:
            continue
        option, value = found[1], found[2] or "".join(left[:1])
        if option in "cm":
            return _RunByPython(module=value if option == "m" else "")
        left = left if found[2] else left[1:]
    return _RunByPython()


def _shell_script(words: Sequence[str]) -> str | None:
    left = list(words)
    while left and left[0][:1] in ("-", "+"):
        option = left.pop(0)
        if option in ("-", "--"):
            break
        if not option.startswith("--") and {"c", "s"} & {*option}:
            return None  # it reads a word, or stdin
        if option in _WITH_VALUE:
            del left[:1]
    return left[0] if left else None
