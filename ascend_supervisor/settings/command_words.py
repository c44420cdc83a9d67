"""What COMMAND starts, told by its words, and why it may be refused; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.settings.known_launchers import KNOWN_LAUNCHERS, starts_ranks
from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.readers import Method
from ascend_supervisor.settings.shell_text import ASSIGNS, commands_in
from ascend_supervisor.settings.wrappers import behind_others, text_for_shell
from ascend_supervisor.untrusted_text import shown

PYTHON = re.compile(r"python(\d+(\.\d+)*)?", re.ASCII)


_ALLOWED: Mapping[Method, frozenset[Method | None]] = {
    "once": frozenset({"torchrun", "msrun", "mpirun", None}),
    "mpirun": frozenset({"torchrun", "msrun", None}),  # with one slot for each server
}
_FLAGS = frozenset(option.flag for option in OPTIONS)
_OF_OTHERS = frozenset(
    {
        *("--check", "--color", "--config", "--console", "--event-log", "--help", "--json"),
        *("--language", "--log-dir", "--log-keep", "--log-level", "--master-port", "--method"),
        *("--metrics-file", "--node-rank", "--peers", "--pod-name", "--progress"),
        *("--progress-interval", "--rank-table", "--server-id", "--servers", "--standalone"),
        *("--state-file", "--version", "--warm", "--watchdog", "--work-dir"),
    }
)
"""Options of ours that a launcher or a training program may well have, too."""


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


def command_fault(
    method: Method, command: Sequence[str], variables: Collection[str] = ()
) -> str | None:
    """Why ``method`` cannot start the command, in a sentence; None if it can.

    ``variables`` are the names of those that it gets from outside.
    """
    if command[0] == "--" or command[0].partition("=")[0] in _FLAGS:
        found = "a second --" if command[0] == "--" else f"{shown(command[0])}, an option"
        return (
            f"COMMAND: expected a program, found {found}; write -- once, after the options of the "
            "supervisor: -- python3 train.py"
        )
    if ASSIGNS.fullmatch(command[0]):
        name = command[0].partition("=")[0]  # the value may be a secret
        return (
            f"COMMAND: expected a program, found {name}=..., which only a shell reads; {_VARIABLE}"
        )
    if instead := _INSTEAD_OF_BUILTINS.get(command[0]):
        return f"{command[0]} is a word of the shell, and the command runs without one; {instead}"
    return nested_launcher(method, command, variables)


def early_option(command: Sequence[str]) -> str | None:
    """The last option of ours that the command has before a ``--``, if it has no other options.

    If its first word is no program, it begins too early: at a word that no option of ours takes.
    """
    if "--" not in command:
        return None
    before = command[: command.index("--")]
    options = [word.partition("=")[0] for word in before if word.startswith("-")]
    return options[-1] if options and _FLAGS.issuperset(options) else None


def options_within(command: Sequence[str]) -> tuple[str, ...]:
    """The options of ours among the words of the command that are hardly its own, each once."""
    words = command[1 : command.index("--") if "--" in command else None]
    flags = (word.partition("=")[0] for word in words)
    return tuple(dict.fromkeys(flag for flag in flags if flag in _FLAGS - _OF_OTHERS))


def nested_launcher(
    method: Method, command: Sequence[str], variables: Collection[str] = ()
) -> str | None:
    """A sentence if ``method`` would start a launcher as a rank; None if not.

    Of what a shell reads (``bash -c``), commands that depend on nothing are examined.
    """
    found = _launched_by(command, frozenset(variables))
    if found is None or found.method in _ALLOWED.get(method, ()):
        return None
    return (
        f"COMMAND: --method {method} expected the program of a rank, found {found.words}, which "
        f"starts ranks itself; {_instead(found)}"
    )


def launcher_in_script(text: str, variables: Collection[str] = ()) -> str | None:
    """How the launcher is called that a shell which reads the script starts in any case, if any."""
    found = _launched_in_shell(text, frozenset(variables))
    return None if found is None else found.words


class _Found(Struct, frozen=True):
    """A launcher in a command: how it is called, and the method that calls it."""

    words: str
    method: Method | None


def _instead(found: _Found) -> str:
    as_it_is = f"start it as it is: --method once -- {found.words} ..."
    if found.method is None:
        return (
            f"{as_it_is}, or let the supervisor start what each rank runs: -- python train.py ..."
        )
    return f"let the supervisor call it: --method {found.method} -- train.py ..., or {as_it_is}"


def _launched_by(command: Sequence[str], variables: frozenset[str]) -> _Found | None:
    behind = behind_others(command)
    first, *words = behind.words
    variables |= behind.variables
    name = PurePath(first).name
    text = _shell_text(words) if name in _SHELLS else text_for_shell(name, words)
    if text is not None:
        return _launched_in_shell(text, variables)
    name, words = _told_by_python(name, words)
    launcher = KNOWN_LAUNCHERS.get(name)
    if launcher is None or not starts_ranks(launcher, words, variables):
        return None
    shown_words = f"{name} {words[0]}" if launcher.words else name
    return _Found(shown_words, launcher.method)


_PROFILERS: Mapping[str, tuple[str, frozenset[str]]] = {
    "python -m cProfile": ("", frozenset({"-o", "--outfile", "-s", "--sort"})),
    "python -m profile": ("", frozenset({"-o", "--outfile", "-s", "--sort"})),
    "python -m pdb": ("", frozenset({"-c", "--command"})),
    "python -m debugpy": ("", frozenset({"--listen", "--connect", "--log-to"})),
    "python -m viztracer": ("", frozenset({"-o", "--output_file", "--tracer_entries"})),
    "viztracer": ("", frozenset({"-o", "--output_file", "--tracer_entries"})),
    "python -m coverage": ("run", frozenset({"--include", "--omit", "--source", "--rcfile"})),
    "coverage": ("run", frozenset({"--include", "--omit", "--source", "--rcfile"})),
}
"""Programs that run a module or script as Python does, with the word before their options."""


def _told_by_python(name: str, words: list[str]) -> tuple[str, list[str]]:
    """The module or script that Python is to run, also under a profiler, and its words."""
    if PYTHON.fullmatch(name):
        run = _run_by_python(words)
        name = f"python -m {run.module}" if run.module else PurePath(run.script).name
        words = list(run.arguments)
    subcommand, with_value = _PROFILERS.get(name, ("-", frozenset()))
    if subcommand not in {"", *words[:1]}:
        return name, words
    left = words[1:] if subcommand else words
    while left and left[0].startswith("-") and left[0] != "-m":
        left = left[2:] if left[0] in with_value else left[1:]
    return _told_by_python("python", left)


def _launched_in_shell(text: str, variables: frozenset[str]) -> _Found | None:
    each = (_launched_by(one.words, variables | one.variables) for one in commands_in(text))
    return next(filter(None, each), None)


def script_of(command: Sequence[str]) -> str | None:
    """The script that Python or a shell is to run, as the command names it; None without one."""
    name, words = _started_here(command)
    if name in _SHELLS:
        return _shell_script(words)
    return _run_by_python(words).script or None if PYTHON.fullmatch(name) else None


def module_of(command: Sequence[str]) -> str | None:
    """The module that Python is to run (``-m``); None without one."""
    name, words = _started_here(command)
    return _run_by_python(words).module or None if PYTHON.fullmatch(name) else None


def _started_here(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The name of the program and its words; none if it starts in another directory."""
    behind = behind_others(command)
    first, *words = behind.words
    return ("", ()) if behind.is_elsewhere else (PurePath(first).name, words)


def interpreter_of(command: Sequence[str]) -> str:
    """The program, behind those that only start it."""
    return behind_others(command).words[0]


def shell_script_of(command: Sequence[str]) -> str | None:
    """The file that a shell reads, or a program that may be a script for one; None for others."""
    name, words = _started_here(command)
    if name in _SHELLS:
        return _shell_script(words)
    first = interpreter_of(command)
    return first if name and "/" in first and not PYTHON.fullmatch(name) else None


class PythonProgram(Struct, frozen=True):
    """A command that begins with Python: the ``interpreter`` with its options, then its ``words``.

    ``words`` are a script and its arguments, or ``-m``, a module and its arguments.
    """

    interpreter: tuple[str, ...]
    words: tuple[str, ...]

    def is_same(self, other: PythonProgram) -> bool:
        """Whether only the arguments of the script or module differ, if any do."""
        named = 2 if self.words[0] == "-m" else 1
        return self.interpreter == other.interpreter and self.words[:named] == other.words[:named]


_SHORT_OPTIONS = re.compile("-([a-zA-VY-Z?]*)")
"""Those of one word, up to -W or -X, whose value follows."""
_KEEP_NO_STANDBY = frozenset("ix")
"""Python's options after which it does not just run a script from its first line to its last."""


def python_program(command: Sequence[str]) -> PythonProgram | None:
    """None if the command does not begin with Python and a script or a module."""
    if not PYTHON.fullmatch(PurePath(command[0]).name):
        return None
    run = _run_by_python(command[1:])
    if not run.module and not run.script:
        return None
    words = ("-m", run.module, *run.arguments) if run.module else (run.script, *run.arguments)
    options = tuple(command[: len(command) - len(words)])
    is_split = options + words == tuple(command)
    short = [_SHORT_OPTIONS.match(word) for word in options[1:]]
    letters = {letter for found in short if found for letter in found[1]}
    return PythonProgram(options, words) if is_split and not letters & _KEEP_NO_STANDBY else None


def profiler_of(program: PythonProgram) -> str | None:
    """The profiler or debugger that runs the user's script or module; None if Python runs it."""
    first, *words = program.words
    name = f"python -m {words[0]}" if first == "-m" else PurePath(first).name
    return name if name in _PROFILERS else None


class _RunByPython(Struct, frozen=True):
    """A module or a script; both are empty for code in the command itself, or from stdin."""

    module: str = ""
    script: str = ""
    arguments: tuple[str, ...] = ()


def _run_by_python(words: Sequence[str]) -> _RunByPython:
    """``words`` follow the interpreter."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "-":
            break
        if not word.startswith("-"):
            return _RunByPython(script=word, arguments=tuple(left))
        if word == "--check-hash-based-pycs":
            del left[:1]
        found = _ENDS_OPTIONS.fullmatch(word)
        if found is None:
            continue
        value = found[2] or "".join(left[:1])
        left = left if found[2] else left[1:]
        if found[1] in "cm":
            return _RunByPython(value if found[1] == "m" else "", arguments=tuple(left))
    return _RunByPython()


def _shell_script(words: Sequence[str]) -> str | None:
    options, left = _options_of_shell(words)
    return left[0] if left and not {"c", "s"} & options else None


def _shell_text(words: Sequence[str]) -> str | None:
    """What a shell reads from its command line (``-c``); None if it reads something else."""
    options, left = _options_of_shell(words)
    return left[0] if left and "c" in options else None


def _options_of_shell(words: Sequence[str]) -> tuple[set[str], list[str]]:
    """The letters of its short options, and the words behind the options."""
    left, letters = list(words), set[str]()
    while left and left[0][:1] in ("-", "+"):
        option = left.pop(0)
        if option in ("-", "--"):
            break
        if not option.startswith("--"):
            letters |= {*option}
        if option in _WITH_VALUE:
            del left[:1]
    return letters, left
