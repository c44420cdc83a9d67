"""The programs that only start another one, and what is behind them; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.settings.shell_text import ASSIGNS, assigned, switched_on


class Wrapper(Struct, frozen=True):
    """A program that starts the command after its options.

    ``with_value`` are its options whose value is the next word, ``operands`` the number of words
    before the command. It does so only behind one of the ``subcommands``, if it has such, and not
    with an option of ``asks``.
    """

    with_value: frozenset[str] = frozenset()
    operands: int = 0
    subcommands: frozenset[str] = frozenset()
    asks: frozenset[str] = frozenset()


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RUN = _options("run")
_IN_ENVIRONMENT = _options("-n --name -p --prefix --cwd")
_WRAPPERS: Mapping[str, Wrapper] = {
    "env": Wrapper(_options("-u --unset -C --chdir")),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "nice": Wrapper(_options("-n --adjustment")),
    "stdbuf": Wrapper(_options("-i --input -o --output -e --error")),
    "unbuffer": Wrapper(),
    "timeout": Wrapper(_options("-s --signal -k --kill-after"), 1),
    "taskset": Wrapper(operands=1),
    "numactl": Wrapper(
        _options(
            "-i --interleave -p --preferred -P --preferred-many -w --weighted-interleave "
            "-C --physcpubind -N --cpunodebind -m --membind"
        )
    ),
    "time": Wrapper(_options("-f --format -o --output")),
    "ionice": Wrapper(_options("-c --class -n --classdata")),
    "chrt": Wrapper(_options("-T --sched-runtime -P --sched-period -D --sched-deadline"), 1),
    "choom": Wrapper(_options("-n --adjust")),
    "prlimit": Wrapper(),
    "setarch": Wrapper(operands=1),
    "setpriv": Wrapper(
        _options(
            "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits "
            "--pdeathsig --selinux-label --apparmor-profile"
        )
    ),
    "sudo": Wrapper(
        _options("-u --user -g --group -h --host -p --prompt -C -D --chdir -R -r -t"),
        asks=_options("-l --list"),
    ),
    "gosu": Wrapper(operands=1),
    "su-exec": Wrapper(operands=1),
    "tini": Wrapper(_options("-p -e")),
    "dumb-init": Wrapper(_options("-r --rewrite")),
    "strace": Wrapper(_options("-o -e -p -s -E -P -a -u -O -S -X -I -b")),
    "conda": Wrapper(_IN_ENVIRONMENT, subcommands=_RUN),
    "mamba": Wrapper(_IN_ENVIRONMENT, subcommands=_RUN),
    "micromamba": Wrapper(_IN_ENVIRONMENT, subcommands=_RUN),
    "uv": Wrapper(
        _options("-p --python --with --extra --group --project --directory --env-file"),
        subcommands=_RUN,
    ),
    "poetry": Wrapper(subcommands=_RUN),
    "pipenv": Wrapper(subcommands=_RUN),
    "flock": Wrapper(
        _options("-w --wait --timeout -E --conflict-exit-code"),
        1,
        # with one of these a rank may start nothing
        asks=_options("-n --nb --nonblock -w --wait --timeout"),
    ),
    "perf": Wrapper(
        _options("-e --event -o --output -F --freq -c --count -r --repeat -x -I -m -C --cpu"),
        subcommands=_options("stat record trace"),
    ),
    "unshare": Wrapper(_options("-R --root -w --wd -S --setuid -G --setgid")),
    "chroot": Wrapper(operands=1),
    "runuser": Wrapper(
        _options("-u --user -g --group -G --supp-group -w --whitelist-environment"),
        asks=_options("-l --login -"),
    ),
    "busybox": Wrapper(),
    "xargs": Wrapper(
        _options("-n --max-args -P --max-procs -s --max-chars -d --delimiter -a --arg-file -E"),
        asks=_options("-r --no-run-if-empty -I -i -p --interactive"),
    ),
    "ltrace": Wrapper(_options("-o -e -p -s -a -u -l -n -x -F -D -A")),
    "doas": Wrapper(_options("-u -C")),
    "setuidgid": Wrapper(operands=1),
    "s6-setuidgid": Wrapper(operands=1),
    "nsys": Wrapper(
        _options("-o --output -t --trace -s --sample -c --capture-range -d --duration -y --delay"),
        subcommands=_options("profile"),
    ),
    "py-spy": Wrapper(
        _options("-o --output -d --duration -r --rate -f --format"),
        subcommands=_options("record"),
    ),
    "msprof": Wrapper(),
    # words of the shell
    "exec": Wrapper(_options("-a")),
    "command": Wrapper(asks=_options("-v -V")),
    "builtin": Wrapper(),
}
_MOVES: Mapping[str, frozenset[str]] = {
    "env": _options("-C --chdir"),
    "sudo": _options("-D --chdir -R --chroot -i --login"),
    "runuser": _options("-l --login -"),
    "conda": _options("--cwd"),
    "mamba": _options("--cwd"),
    "micromamba": _options("--cwd"),
    "uv": _options("--directory"),
    "poetry": _options("-C --directory"),
    "unshare": _options("-R --root -w --wd"),
}
"""Options with which a program starts the command in another directory."""
_TAKES_VARIABLES = frozenset({"env", "sudo"})


class Behind(Struct, frozen=True):
    """A command without the programs that only start it, and the variables that they set.

    ``is_elsewhere`` is whether one of them changes the directory, or the root.
    """

    words: Sequence[str]
    variables: frozenset[str] = frozenset()
    is_elsewhere: bool = False


def behind_others(command: Sequence[str]) -> Behind:
    """The command without programs such as ``env A=1``, ``nohup`` and ``timeout 5m``."""
    words = list(command)
    variables: set[str] = set()
    is_elsewhere = False
    while words:
        if ASSIGNS.fullmatch(words[0]):
            variables |= switched_on(assigned([words.pop(0)]))
            continue
        name = PurePath(words[0]).name
        wrapper = _WRAPPERS.get(name)
        if wrapper is None or (wrapper.subcommands and not {*words[1:2]} & wrapper.subcommands):
            break
        own = words[:]
        del own[: 2 if wrapper.subcommands else 1]
        if text_for_shell(name, own) is not None:
            break
        options = {*_drop_options(name, wrapper, own)}
        if wrapper.asks & options:
            break
        is_elsewhere |= name == "chroot" or bool(_MOVES.get(name, frozenset()) & options)
        words = own
        if name in _TAKES_VARIABLES:
            while words and ASSIGNS.fullmatch(words[0]):
                variables |= switched_on(assigned([words.pop(0)]))
        del words[: wrapper.operands]
        if name == "flock" and words[:1] in (["-c"], ["--command"]):
            words = ["sh", "-c", *words[1:]]
    return Behind(words or command, frozenset(variables), is_elsewhere)


def _drop_options(name: str, wrapper: Wrapper, words: list[str]) -> list[str]:
    """Remove the options at the beginning of ``words``, with their values; returns them."""
    dropped: list[str] = []
    while words and words[0].startswith("-"):
        option = words.pop(0)
        dropped += [option, option.partition("=")[0]]
        if option == "--":
            break
        if name == "env" and option in {"-S", "--split-string"}:
            words[:1] = words[0].split() if words else []
        elif option in wrapper.with_value:
            del words[:1]
    return dropped


_TAKES_TEXT: Mapping[str, tuple[str, list[str]]] = {
    "su": ("c:g:G:s:w:lmpPf", ["command=", "session-command=", "group=", "shell=", "login"]),
    "runuser": ("c:g:G:s:w:u:lmpPf", ["command=", "session-command=", "group=", "shell=", "login"]),
    "script": ("c:aefqo:E:m:T:I:O:B:t", ["command=", "append", "return", "flush", "quiet"]),
    "msprof": ("", ["application=", "output="]),
}
"""Programs with an option whose value a shell reads: their short and long options."""


def text_for_shell(name: str, words: Sequence[str]) -> str | None:
    """What the program with this name, and these words, gives a shell to read; None for nothing."""
    if name in {"eval", "watch"}:
        wrapper = Wrapper(
            _options("-n --interval -q --equexit") if name == "watch" else frozenset()
        )
        left = [*words]
        _drop_options(name, wrapper, left)
        return " ".join(left)
    if name not in _TAKES_TEXT:
        return None
    from getopt import GetoptError, gnu_getopt  # noqa: PLC0415  (most commands have none)

    try:
        options, _ = gnu_getopt([*words], *_TAKES_TEXT[name])
    except GetoptError:
        return None
    if "-u" in dict(options):
        return None
    of_text = {"-c", "--command", "--session-command", "--application"}
    return next((value for option, value in options if option in of_text), None)
