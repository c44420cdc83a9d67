"""The man pages of both programs, as text for groff."""

from __future__ import annotations

from collections.abc import Iterable

from shell_words import Word, ctl_commands, ctl_options, supervisor_groups

from ascend_supervisor import errors
from ascend_supervisor.settings.kinds import PREFIX

NOTE = r".\" Made from the tables of options by scripts/shell-files; do not edit."


def supervisor() -> str:
    """ascend-supervisor(1)."""
    return _page(
        "ascend-supervisor",
        "starts, keeps and restarts the ranks of a training job on Ascend NPUs",
        [
            ".SH SYNOPSIS",
            r"\fBascend\-supervisor\fR [\fIOPTIONS\fR] [\fB\-\-\fR] \fICOMMAND\fR [\fIARG\fR ...]",
            ".SH DESCRIPTION",
            _escaped(
                "Starts COMMAND once for every NPU of this machine, as the rank table or the "
                "platform's variables say, keeps what the ranks print, and restarts or ends all "
                "of them when one fails. Everything from the first word that is no option "
                "belongs to COMMAND, which is run without a shell."
            ),
            ".PP",
            _escaped(
                f"Each option can also be set as an environment variable ({PREFIX}RESTART_DELAY "
                "for --restart-delay) or in the TOML file of --config (restart_delay). The "
                "command line wins over the environment, which wins over the file. S is "
                "seconds, or a number with its unit: 250ms, 90s, 5m, 1h. SIZE is bytes, or "
                "64KiB, 20MiB, 1GiB. An option that may be repeated has one value on each line "
                "of its variable, and a list in the file."
            ),
            ".SH OPTIONS",
            *(line for title, words in supervisor_groups() for line in _group(title, words)),
            ".SH EXIT STATUS",
            _escaped("That of the rank that failed first, 128+n after signal n, or"),
            *_items(_exit_codes()),
            ".SH EXAMPLES",
            ".EX",
            _escaped("ascend-supervisor --restarts 3 --grace 60 -- python /code/train.py"),
            _escaped("ascend-supervisor --standalone 2 -- python train.py"),
            ".EE",
            ".SH SEE ALSO",
            r".BR ascend\-supervisorctl (1)",
        ],
    )


def ctl() -> str:
    """ascend-supervisorctl(1)."""
    lines = []
    for command in ctl_commands():
        operands = " ".join(word.metavar for word in command.operands)
        lines += [f".SS {_escaped(f'{command.name} {operands}'.rstrip())}"]
        lines += [_escaped(_sentence(command.help))]
        lines += _items((_left(word), _meaning(word)) for word in command.options)
    return _page(
        "ascend-supervisorctl",
        "looks at a running supervisor and its ranks, and asks it to act",
        [
            ".SH SYNOPSIS",
            r"\fBascend\-supervisorctl\fR [\fIOPTIONS\fR] \fICOMMAND\fR [\fIARG\fR ...]",
            ".SH OPTIONS",
            *_items((_left(word), _meaning(word)) for word in ctl_options()),
            ".SH COMMANDS",
            *lines,
            ".SH SEE ALSO",
            r".BR ascend\-supervisor (1)",
        ],
    )


def _page(name: str, meaning: str, lines: Iterable[str]) -> str:
    title = f'.TH {_escaped(name.upper())} 1 "" "ascend_supervisor"'
    named = [".SH NAME", rf"{_escaped(name)} \- {_escaped(meaning)}"]
    return "\n".join([NOTE, title, *named, *lines]) + "\n"


def _group(title: str, words: Iterable[Word]) -> list[str]:
    return [f".SS {_escaped(title)}", *_items((_left(word), _meaning(word)) for word in words)]


def _items(items: Iterable[tuple[str, str]]) -> list[str]:
    return [line for left, right in items for line in (".TP", left, right)]


def _left(word: Word) -> str:
    flags = ", ".join(rf"\fB{_escaped(flag)}\fR" for flag in word.flags)
    return flags + (rf" \fI{_escaped(word.metavar)}\fR" if word.metavar else "")


def _meaning(word: Word) -> str:
    default = f" (default: {word.default})" if word.default else ""
    return _escaped(_sentence(word.help + default))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _exit_codes() -> list[tuple[str, str]]:
    return [
        ("0", "Every rank ended with 0."),
        (str(errors.USAGE), "The command line or the configuration is wrong."),
        (str(errors.BAD_TABLE), "The rank table is wrong."),
        (str(errors.UNAVAILABLE), "A device or a service is unavailable."),
        (str(errors.DEFECT), "A defect of this program."),
        (str(errors.CANNOT_WRITE), "A directory or a file cannot be written."),
        (str(errors.TABLE_NOT_READY), "The rank table was not completed in time."),
        (str(errors.HANG), "The ranks made no progress."),
        (str(errors.CANNOT_EXECUTE), "COMMAND cannot be executed."),
        (str(errors.NOT_FOUND), "COMMAND was not found."),
    ]


def _escaped(text: str) -> str:
    """``text`` for groff: a hyphen stays one that can be copied; no line begins with a request."""
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return rf"\&{plain}" if plain.startswith(".") else plain
