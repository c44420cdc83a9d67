"""What COMMAND starts, told by its words, and why it may be refused; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from ascend_supervisor.settings.values import Method

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
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_STARTS_ANOTHER: Mapping[str, frozenset[str]] = {
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "nice": frozenset({"-n", "--adjustment"}),
    "stdbuf": frozenset({"-i", "--input", "-o", "--output", "-e", "--error"}),
}
"""Programs that become the command after their options, and the options with a value."""
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
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            return PurePath(word).name
        found = _ENDS_OPTIONS.fullmatch(word)
        if found is None:
            continue
        option, value = found[1], found[2] or "".join(words[:1])
        if option in "cm":
            return f"python -m {value}" if option == "m" else ""
        words = words if found[2] else words[1:]
    return name
