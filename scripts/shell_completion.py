"""Completion for bash and zsh, as text, made from parsers.

It is our own because shtab's completes no value after ``--option=`` and offers our options among
the words of the command, as argcomplete's does, which needs a package in the image besides.
"""

from __future__ import annotations

from argparse import Action, ArgumentParser, _AppendAction, _SubParsersAction
from collections.abc import Iterable, Sequence

from command_lines import ctl_parser, supervisor_parser

NOTE = "made from the tables of options by scripts/shell_files.py; do not edit"

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
                ((i += 1))
                # A value with ":" or "=" in it is several words to bash.
                while [[ ${{COMP_WORDS[i]}} == *[:=] || ${{COMP_WORDS[i + 1]}} == [:=]* ]]; do
                    ((i += 1))
                done
                ((i += 1)) ;;
            -*)
                ((i += 1))
                [[ ${{COMP_WORDS[i]}} == "=" ]] && ((i += 2))
                [[ $word == {counter} && ${{COMP_WORDS[i]}} =~ ^[0-9]+$ ]] && ((i += 1)) ;;
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
    options = _options(supervisor_parser())
    return _bash_head("ascend-supervisor", options) + BASH.format(
        takers="|".join(_flags(filter(_needs_value, options))),
        counter=_counter(supervisor_parser()),
        flags=" ".join(_flags(options)),
    )


def bash_ctl() -> str:
    """Of ascend-supervisorctl."""
    parser = ctl_parser()
    commands = _commands(parser).choices
    every = [one for each in (parser, *commands.values()) for one in _options(each)]
    options = list({one.option_strings[0]: one for one in every}.values())
    return _bash_head("ascend-supervisorctl", options) + BASH_CTL.format(
        ctl_takers="|".join(_flags(filter(_needs_value, options))),
        ctl_flags=" ".join(_flags(_options(parser))),
        ctl_names=" ".join(commands),
        ctl_commands="\n".join(_bash_command(*one) for one in commands.items()),
    )


def _bash_head(program: str, options: Sequence[Action]) -> str:
    prefix = "_" + program.replace("-", "_")
    values = "\n".join(map(_bash_values, filter(_needs_value, options)))
    return BASH_VALUES.format(note=NOTE, program=program, prefix=prefix, values=values)


def _bash_values(option: Action) -> str:
    """The case of one option: choices, files, directories; nothing for other values."""
    act = ":"
    if option.choices:
        act = f'mapfile -t COMPREPLY < <(compgen -W "{" ".join(option.choices)}" -- "$2")'
    elif kind := _PATHS.get(str(option.metavar)):
        act = f'compopt -o filenames; mapfile -t COMPREPLY < <(compgen {kind} -- "$2")'
    return f"        {'|'.join(option.option_strings)}) {act} ;;"


def _bash_command(name: str, parser: ArgumentParser) -> str:
    files = '; [[ $cur == -* ]] || { compopt -o filenames; options=$(compgen -f -- "$cur"); }'
    takes_file = any(one.metavar in _PATHS for one in _operands(parser))
    flags = " ".join(_flags(_options(parser)))
    return f'        {name}) options="{flags}"{files if takes_file else ""} ;;'


# zsh -------------------------------------------------------------------------------------------

ZSH = """\
#compdef ascend-supervisor ascend-supervisorctl
# Completion for zsh; {note}.
# Copy it into a directory of $fpath as _ascend-supervisor.

_ascend_supervisor() {{
    local i=$words[(i){counter}]
    if ((i + 1 < CURRENT)) && [[ $words[i+1] == <-> ]]; then
        words[i,i+1]=("$words[i]=$words[i+1]")
        ((CURRENT -= 1))
    fi
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
    parser = ctl_parser()
    commands = _commands(parser)
    meanings = {one.dest: one.help for one in commands._get_subactions()}  # noqa: SLF001
    return ZSH.format(
        note=NOTE,
        counter=_counter(supervisor_parser()),
        options=_zsh_options(supervisor_parser(), 8),
        ctl_options=_zsh_options(parser, 8),
        ctl_names="\n".join(
            f"                {_quoted(f'{name}:{meanings[name]}')}" for name in commands.choices
        ),
        ctl_commands="\n".join(_zsh_command(*one) for one in commands.choices.items()),
    )


def _zsh_command(name: str, parser: ArgumentParser) -> str:
    operands = [f"*:{one.metavar}:{_zsh_values(one)}" for one in _operands(parser)]
    lines = [_zsh_options(parser, 20), *(" " * 20 + _quoted(one) for one in operands)]
    listed = " \\\n".join(lines)
    return f"                {name}) _arguments : \\\n{listed} ;;"


def _zsh_options(parser: ArgumentParser, indent: int) -> str:
    specs = [spec for option in _options(parser) for spec in _zsh_specs(option)]
    return " \\\n".join(" " * indent + _quoted(spec) for spec in specs)


def _zsh_specs(option: Action) -> Iterable[str]:
    """One for each spelling."""
    meaning = (option.help or "").replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")
    flags, repeats = option.option_strings, isinstance(option, _AppendAction)
    others = "" if repeats or len(flags) == 1 else f"({' '.join(flags)})"
    for flag in flags:
        start = ("*" if repeats else others) + flag
        if option.nargs == 0:
            yield f"{start}[{meaning}]"
        elif option.nargs == "?":
            yield f"{start}=-[{meaning}]::{option.metavar}: "
        else:
            equals = "=" if flag.startswith("--") else ""
            value = str(option.metavar).replace(":", r"\:")
            yield f"{start}{equals}[{meaning}]:{value}:{_zsh_values(option)}"


def _zsh_values(option: Action) -> str:
    if option.choices:
        return f"({' '.join(option.choices)})"
    return {"-f": "_files", "-d": "_files -/"}.get(_PATHS.get(str(option.metavar), ""), " ")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


# parsers ---------------------------------------------------------------------------------------

_PATHS = {"PATH": "-f", "FILE": "-f", "DIR": "-d"}
"""What compgen completes for a metavar."""


def _options(parser: ArgumentParser) -> list[Action]:
    return parser._get_optional_actions()  # noqa: SLF001  (argparse has no other way to list them)


def _operands(parser: ArgumentParser) -> list[Action]:
    return parser._get_positional_actions()  # noqa: SLF001


def _commands(parser: ArgumentParser) -> _SubParsersAction[ArgumentParser]:
    (commands,) = (one for one in _operands(parser) if isinstance(one, _SubParsersAction))
    return commands


def _needs_value(option: Action) -> bool:
    return option.nargs is None


def _counter(parser: ArgumentParser) -> str:
    """The option whose value may be left out; a number after it is one."""
    (flag,) = _flags(option for option in _options(parser) if option.nargs == "?")
    return flag


def _flags(options: Iterable[Action]) -> list[str]:
    return [flag for option in options for flag in option.option_strings]
