"""Completion for bash and zsh, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shell_words import Command, Word, ctl_commands, ctl_options, supervisor_options

NOTE = "made from the tables of options by scripts/shell-files; do not edit"

# bash ------------------------------------------------------------------------------------------

BASH_VALUES = """\
# Completion of {program} for bash;
# {note}.
# Source it, or copy it to /usr/share/bash-completion/completions/{program}.

# The values of the option $1 that begin with $2; fails if it has none, or takes any.
{prefix}_values() {{
    case $1 in
{values}
        *) return 1 ;;
    esac
}}

# Which option $cur is the value of: the word before, or the one before "=".
{prefix}_option() {{
    local before=${{COMP_WORDS[COMP_CWORD - 1]}}
    if [[ $cur == "=" ]]; then
        cur=
        option=$before
    elif [[ $before == "=" ]]; then
        option=${{COMP_WORDS[COMP_CWORD - 2]}}
    else
        option=$before
    fi
}}

"""

BASH = """\
_ascend_supervisor() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} option word i=1
    COMPREPLY=()
    while ((i < COMP_CWORD)); do
        word=${{COMP_WORDS[i]}}
        case $word in
            --) ((i += 1)); break ;;
            {takers})
                [[ ${{COMP_WORDS[i + 1]}} == "=" ]] && ((i += 1))
                ((i += 2)) ;;
            -*)
                ((i += 1))
                [[ ${{COMP_WORDS[i]}} == "=" ]] && ((i += 2)) ;;
            *) break ;;
        esac
    done
    if ((i < COMP_CWORD)) || {{ ((i == COMP_CWORD)) && [[ $cur != -* && $cur != "=" ]]; }}; then
        # The command, and its own words.
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        elif ((i == COMP_CWORD)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    fi
    _ascend_supervisor_option
    _ascend_supervisor_values "$option" "$cur" && return
    mapfile -t COMPREPLY < <(compgen -W "{flags}" -- "$cur")
}}
complete -F _ascend_supervisor ascend-supervisor
"""

BASH_CTL = """\
_ascend_supervisorctl() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} option word i=1 command= options
    COMPREPLY=()
    while ((i < COMP_CWORD)); do
        word=${{COMP_WORDS[i]}}
        case $word in
            {ctl_takers})
                [[ ${{COMP_WORDS[i + 1]}} == "=" ]] && ((i += 1))
                ((i += 1)) ;;
            -*) ;;
            *) command=$word; break ;;
        esac
        ((i += 1))
    done
    _ascend_supervisorctl_option
    _ascend_supervisorctl_values "$option" "$cur" && return
    case $command in
        "") options="{ctl_flags} {ctl_names}" ;;
{ctl_commands}
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
}}
complete -F _ascend_supervisorctl ascend-supervisorctl
"""


def bash() -> str:
    """Of ascend-supervisor."""
    words = supervisor_options()
    return _bash_head("ascend-supervisor", words) + BASH.format(
        takers="|".join(_flags(word for word in words if word.needs_value)),
        flags=" ".join(_flags(words)),
    )


def bash_ctl() -> str:
    """Of ascend-supervisorctl."""
    commands = ctl_commands()
    words = _unique([*ctl_options(), *(word for one in commands for word in one.options)])
    return _bash_head("ascend-supervisorctl", words) + BASH_CTL.format(
        ctl_takers="|".join(_flags(word for word in words if word.needs_value)),
        ctl_flags=" ".join(_flags(ctl_options())),
        ctl_names=" ".join(command.name for command in commands),
        ctl_commands="\n".join(map(_bash_command, commands)),
    )


def _bash_head(program: str, words: Sequence[Word]) -> str:
    prefix = "_" + program.replace("-", "_")
    values = _bash_values(words)
    return BASH_VALUES.format(note=NOTE, program=program, prefix=prefix, values=values)


def _bash_values(words: Sequence[Word]) -> str:
    """Cases of the values: choices, files, directories; nothing for other values."""
    cases = []
    for word in words:
        if not word.needs_value:
            continue
        how = f'-W "{" ".join(word.choices)}"' if word.choices else ""
        how = "-f" if word.is_file else "-d" if word.is_directory else how
        act = f'mapfile -t COMPREPLY < <(compgen {how} -- "$2")' if how else ":"
        act = f"compopt -o filenames; {act}" if word.is_file or word.is_directory else act
        cases.append(f"        {'|'.join(word.flags)}) {act} ;;")
    return "\n".join(cases)


def _bash_command(command: Command) -> str:
    flags = " ".join(_flags(command.options))
    takes_file = any(word.is_file for word in command.operands)
    files = '; [[ $cur == -* ]] || { compopt -o filenames; options=$(compgen -f -- "$cur"); }'
    return f'        {command.name}) options="{flags}"{files if takes_file else ""} ;;'


# zsh -------------------------------------------------------------------------------------------

ZSH = """\
#compdef ascend-supervisor ascend-supervisorctl
# Completion for zsh; {note}.
# Copy it into a directory of $fpath as _ascend-supervisor.

_ascend_supervisor() {{
    _arguments -S : \\
{options} \\
        '(-):command: _command_names -e' \\
        '*::argument: _normal'
}}

_ascend_supervisorctl() {{
    local context state line
    typeset -A opt_args
    _arguments -C : \\
{ctl_options} \\
        '1:command:->command' \\
        '*::argument:->arguments'
    case $state in
        command)
            local -a commands=(
{ctl_names}
            )
            _describe command commands ;;
        arguments)
            case $words[1] in
{ctl_commands}
            esac ;;
    esac
}}

case $service in
    ascend-supervisorctl) _ascend_supervisorctl "$@" ;;
    *) _ascend_supervisor "$@" ;;
esac
"""


def zsh() -> str:
    """One function for both programs."""
    commands = ctl_commands()
    return ZSH.format(
        note=NOTE,
        options=_zsh_options(supervisor_options(), 8),
        ctl_options=_zsh_options(ctl_options(), 8),
        ctl_names="\n".join(
            f"                {_quoted(f'{one.name}:{one.help}')}" for one in commands
        ),
        ctl_commands="\n".join(map(_zsh_command, commands)),
    )


def _zsh_command(command: Command) -> str:
    lines = [_zsh_options(command.options, 20)]
    for word in command.operands:
        action = "_files" if word.is_file else " "
        lines.append(f"                    {_quoted(f'*:{word.metavar}:{action}')}")
    listed = " \\\n".join(lines)
    return f"                {command.name}) _arguments : \\\n{listed} ;;"


def _zsh_options(words: Sequence[Word], indent: int) -> str:
    specs = [spec for word in words for spec in _zsh_specs(word)]
    return " \\\n".join(" " * indent + _quoted(spec) for spec in specs)


def _zsh_specs(word: Word) -> Iterable[str]:
    """One for each spelling."""
    meaning = word.help.replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")
    others = "" if word.repeats or len(word.flags) == 1 else f"({' '.join(word.flags)})"
    for flag in word.flags:
        start = ("*" if word.repeats else others) + flag
        if not word.metavar:
            yield f"{start}[{meaning}]"
        elif word.needs_value:
            equals = "=" if flag.startswith("--") else ""
            yield f"{start}{equals}[{meaning}]:{word.metavar}:{_zsh_values(word)}"
        else:
            yield f"{start}=-[{meaning}]::{word.metavar.strip('[]')}: "


def _zsh_values(word: Word) -> str:
    if word.choices:
        return f"({' '.join(word.choices)})"
    if word.is_file:
        return "_files"
    return "_files -/" if word.is_directory else " "


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


def _flags(words: Iterable[Word]) -> list[str]:
    return [flag for word in words for flag in word.flags]


def _unique(words: Iterable[Word]) -> list[Word]:
    """The first of those with the same flags."""
    return list({word.flags: word for word in reversed(list(words))}.values())[::-1]
