"""What COMMAND starts, told by its words, and why it may be refused; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.shell_text import ASSIGNS, commands_in
from ascend_supervisor.settings.values import Method
from ascend_supervisor.untrusted_text import shown

PYTHON = re.compile(r"python(\d+(\.\d+)*)?", re.ASCII)


class _Launcher(Struct, frozen=True):
    """A program that starts ranks itself.

    ``method`` is the one that calls it, if there is one. It starts ranks only with one of the
    ``words`` first, and one of the ``variables`` set, if it has such; and not if one of the options
    ``one`` is 1, or an option is one of the ``alone``.
    """

    method: Method | None = None
    words: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    one: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()


_PROCESSES = frozenset({"--num_processes", "--num-processes", "--processes"})
_SWIFT = frozenset({"NPROC_PER_NODE", "NNODES"})
_TRAIN = frozenset({"train"})
_TORCHRUN = _Launcher("torchrun", one=frozenset({"--nproc_per_node", "--nproc-per-node"}))
_MSRUN = _Launcher("msrun")
_MPIRUN = _Launcher("mpirun")
_ANY = _Launcher()
_ACCELERATE = _Launcher(words=frozenset({"launch"}), one=_PROCESSES)
_LLAMAFACTORY = _Launcher(words=_TRAIN)
_MS_SWIFT = _Launcher(words=frozenset({"pt", "sft", "rlhf", "infer"}), variables=_SWIFT)
_XTUNER = _Launcher(words=_TRAIN, variables=frozenset({"NPROC_PER_NODE", "NNODES"}))
_RUN = _Launcher(words=frozenset({"run"}))
_RAY = _Launcher(words=frozenset({"start", "up", "job", "submit"}))
_TRL = _Launcher(words=frozenset({"sft", "dpo", "grpo", "kto", "reward", "rloo"}), one=_PROCESSES)

_LAUNCHERS: Mapping[str, _Launcher] = {
    "torchrun": _TORCHRUN,
    "torch_npu_run": _TORCHRUN,
    "python -m torch.distributed.run": _TORCHRUN,
    "python -m torch.distributed.launch": _TORCHRUN,
    "python -m torch_npu.distributed.run": _TORCHRUN,
    "msrun": _MSRUN,
    "python -m mindspore.parallel.cluster.run": _MSRUN,
    "mpirun": _MPIRUN,
    "mpiexec": _MPIRUN,
    "mpiexec.hydra": _MPIRUN,
    "orterun": _MPIRUN,
    "prterun": _MPIRUN,
    "accelerate": _ACCELERATE,
    "accelerate-launch": _Launcher(one=_PROCESSES),
    "python -m accelerate.commands.launch": _Launcher(one=_PROCESSES),
    "python -m accelerate.commands.accelerate_cli": _ACCELERATE,
    "deepspeed": _ANY,
    "python -m deepspeed.launcher.runner": _ANY,
    "python -m deepspeed.launcher.launch": _ANY,
    "llamafactory-cli": _LLAMAFACTORY,
    "lmf": _LLAMAFACTORY,
    "python -m llamafactory.cli": _LLAMAFACTORY,
    "swift": _MS_SWIFT,
    "megatron": _MS_SWIFT,
    "python -m swift.cli.main": _MS_SWIFT,
    "xtuner": _XTUNER,
    "colossalai": _RUN,
    "python -m colossalai.cli": _RUN,
    "horovodrun": _ANY,
    "python -m horovod.runner.launch": _ANY,
    "srun": _ANY,
    "sbatch": _ANY,
    "fleetrun": _ANY,
    "python -m paddle.distributed.launch": _ANY,
    "composer": _ANY,
    "fabric": _RUN,
    "torchx": _RUN,
    "trl": _TRL,
    "axolotl": _Launcher(words=_TRAIN, alone=frozenset({"--launcher=python", "--no-accelerate"})),
    "ray": _RAY,
    "python -m ray.scripts.scripts": _RAY,
    "ascend-supervisor": _ANY,
    "python -m ascend_supervisor": _ANY,
}
_ALLOWED: Mapping[Method, frozenset[Method | None]] = {
    "once": frozenset({"torchrun", "msrun", "mpirun", None}),
    "mpirun": frozenset({"torchrun", "msrun", None}),  # with one slot for each server
}
_FLAGS = frozenset(option.flag for option in OPTIONS)


class _Wrapper(Struct, frozen=True):
    """A program that starts the command after its options.

    ``with_value`` are its options whose value is the next word, ``operands`` the number of words
    before the command. It does so only behind the word ``subcommand``, if it has one, and not with
    an option of ``asks``.
    """

    with_value: frozenset[str] = frozenset()
    operands: int = 0
    subcommand: str = ""
    asks: frozenset[str] = frozenset()


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IN_ENVIRONMENT = _options("-n --name -p --prefix --cwd")
_WRAPPERS: Mapping[str, _Wrapper] = {
    "env": _Wrapper(_options("-u --unset -C --chdir")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "nice": _Wrapper(_options("-n --adjustment")),
    "stdbuf": _Wrapper(_options("-i --input -o --output -e --error")),
    "unbuffer": _Wrapper(),
    "timeout": _Wrapper(_options("-s --signal -k --kill-after"), 1),
    "taskset": _Wrapper(operands=1),
    "numactl": _Wrapper(
        _options(
            "-i --interleave -p --preferred -P --preferred-many -w --weighted-interleave "
            "-C --physcpubind -N --cpunodebind -m --membind"
        )
    ),
    "time": _Wrapper(_options("-f --format -o --output")),
    "ionice": _Wrapper(_options("-c --class -n --classdata")),
    "chrt": _Wrapper(_options("-T --sched-runtime -P --sched-period -D --sched-deadline"), 1),
    "choom": _Wrapper(_options("-n --adjust")),
    "prlimit": _Wrapper(),
    "setarch": _Wrapper(operands=1),
    "setpriv": _Wrapper(
        _options(
            "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits "
            "--pdeathsig --selinux-label --apparmor-profile"
        )
    ),
    "sudo": _Wrapper(
        _options("-u --user -g --group -h --host -p --prompt -C -D --chdir -R -r -t"),
        asks=_options("-l --list"),
    ),
    "gosu": _Wrapper(operands=1),
    "su-exec": _Wrapper(operands=1),
    "tini": _Wrapper(_options("-p -e")),
    "dumb-init": _Wrapper(_options("-r --rewrite")),
    "strace": _Wrapper(_options("-o -e -p -s -E -P -a -u -O -S -X -I -b")),
    "conda": _Wrapper(_IN_ENVIRONMENT, subcommand="run"),
    "mamba": _Wrapper(_IN_ENVIRONMENT, subcommand="run"),
    "micromamba": _Wrapper(_IN_ENVIRONMENT, subcommand="run"),
    "uv": _Wrapper(
        _options("-p --python --with --extra --group --project --directory --env-file"),
        subcommand="run",
    ),
    "poetry": _Wrapper(subcommand="run"),
    "pipenv": _Wrapper(subcommand="run"),
    # words of the shell
    "exec": _Wrapper(_options("-a")),
    "command": _Wrapper(asks=_options("-v -V")),
    "builtin": _Wrapper(),
    "eval": _Wrapper(),
}
_ASKS_IT = _options("--version -V --help -h --check-build")
"""A launcher with one of these starts nothing."""
_TAKES_VARIABLES = frozenset({"env", "sudo"})
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
    behind = _behind_others(command)
    first, *words = behind.words
    variables |= behind.variables
    name = PurePath(first).name
    if name in _SHELLS and (text := _shell_text(words)) is not None:
        return _launched_in_shell(text, variables)
    if PYTHON.fullmatch(name):
        run = _run_by_python(words)
        name = f"python -m {run.module}" if run.module else PurePath(run.script).name
        words = list(run.arguments)
    launcher = _LAUNCHERS.get(name)
    if launcher is None or not _starts_ranks(launcher, words, variables):
        return None
    shown_words = f"{name} {words[0]}" if launcher.words else name
    return _Found(shown_words, launcher.method)


def _launched_in_shell(text: str, variables: frozenset[str]) -> _Found | None:
    each = (_launched_by(one.words, variables | one.variables) for one in commands_in(text))
    return next(filter(None, each), None)


def _starts_ranks(launcher: _Launcher, words: Sequence[str], variables: frozenset[str]) -> bool:
    if launcher.words and not {*words[:1]} & launcher.words:
        return False
    if _ASKS_IT & {*words} or (launcher.variables and not launcher.variables & variables):
        return False
    pairs = {f"{option}={value}" for option, value in pairwise(words)}
    ones = {f"{option}=1" for option in launcher.one}
    return not (pairs | {*words}) & (ones | launcher.alone)


def script_of(command: Sequence[str]) -> str | None:
    """The script that Python or a shell is to run, as the command names it; None without one."""
    first, *words = _behind_others(command).words
    name = PurePath(first).name
    if name in _SHELLS:
        return _shell_script(words)
    return _run_by_python(words).script or None if PYTHON.fullmatch(name) else None


def module_of(command: Sequence[str]) -> str | None:
    """The module that Python is to run (``-m``); None without one."""
    first, *words = _behind_others(command).words
    return _run_by_python(words).module or None if PYTHON.fullmatch(PurePath(first).name) else None


def interpreter_of(command: Sequence[str]) -> str:
    """The program, behind those that only start it."""
    return _behind_others(command).words[0]


def shell_script_of(command: Sequence[str]) -> str | None:
    """The file that a shell reads, or a program that may be a script for one; None for others."""
    first, *words = _behind_others(command).words
    name = PurePath(first).name
    if name in _SHELLS:
        return _shell_script(words)
    return first if "/" in first and not PYTHON.fullmatch(name) else None


class _Behind(Struct, frozen=True):
    """A command without the programs that only start it, and the variables that they set."""

    words: Sequence[str]
    variables: frozenset[str] = frozenset()


def _behind_others(command: Sequence[str]) -> _Behind:
    """The command without programs such as ``env A=1``, ``nohup`` and ``timeout 5m``."""
    words = list(command)
    variables: set[str] = set()
    while words:
        if found := ASSIGNS.fullmatch(words[0]):
            variables.add(found[1])
            del words[0]
            continue
        name = PurePath(words[0]).name
        wrapper = _WRAPPERS.get(name)
        if wrapper is None or (wrapper.subcommand and words[1:2] != [wrapper.subcommand]):
            break
        del words[: 2 if wrapper.subcommand else 1]
        if wrapper.asks & {*words[:1]}:
            return _Behind((name,), frozenset(variables))
        _drop_options(name, wrapper, words)
        if name in _TAKES_VARIABLES:
            while words and (found := ASSIGNS.fullmatch(words[0])):
                variables.add(found[1])
                del words[0]
        del words[: wrapper.operands]
    return _Behind(words or command, frozenset(variables))


def _drop_options(name: str, wrapper: _Wrapper, words: list[str]) -> None:
    """Remove the options at the beginning of ``words``, with their values."""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "--":
            break
        if name == "env" and option in {"-S", "--split-string"}:
            words[:1] = words[0].split() if words else []
        elif option in wrapper.with_value:
            del words[:1]


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
        if not word.startswith("-"):
            return _RunByPython(script=word, arguments=tuple(left))
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
