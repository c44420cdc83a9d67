"""What can be written after our two programs: the tables of their options, as one kind of value."""

from __future__ import annotations

from argparse import Action, ArgumentParser, _SubParsersAction
from functools import partial
from typing import NamedTuple

from ascend_supervisor.ctl.arguments import command_line
from ascend_supervisor.settings.kinds import Option
from ascend_supervisor.settings.options import GROUPS

FILES = frozenset({"PATH", "FILE"})


class Word(NamedTuple):
    """An option: ``metavar`` is empty if it has no value, and in brackets if it needs none."""

    flags: tuple[str, ...]
    metavar: str
    help: str
    default: str = ""
    choices: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def needs_value(self) -> bool:
        return bool(self.metavar) and not self.metavar.startswith("[")

    @property
    def is_file(self) -> bool:
        return self.metavar in FILES

    @property
    def is_directory(self) -> bool:
        return self.metavar == "DIR"


class Command(NamedTuple):
    """A command of ctl; ``operands`` are what it takes besides options."""

    name: str
    help: str
    options: tuple[Word, ...]
    operands: tuple[Word, ...]


def supervisor_groups() -> list[tuple[str, list[Word]]]:
    """The options of ascend-supervisor below their titles."""
    return [(title, [_of_option(option) for option in group]) for title, group in GROUPS]


def supervisor_options() -> list[Word]:
    return [word for _, group in supervisor_groups() for word in group]


def ctl_commands() -> list[Command]:
    """The commands of ascend-supervisorctl."""
    (commands,) = (a for a in _actions(command_line()) if isinstance(a, _SubParsersAction))
    meanings = {choice.dest: choice.help or "" for choice in commands._choices_actions}  # noqa: SLF001  (nor these)
    return [_of_command(name, meanings[name], parser) for name, parser in commands.choices.items()]


def ctl_options() -> list[Word]:
    """Those that stand before a command."""
    actions = _actions(command_line())
    return [_of_action(action) for action in actions if action.option_strings]


def _actions(parser: ArgumentParser) -> list[Action]:
    return parser._actions  # noqa: SLF001  (argparse has no other way to list them)


def _of_option(option: Option) -> Word:
    read = option.kind.read
    choices = read.keywords.get("choices", ()) if isinstance(read, partial) else ()
    flags = (option.flag, "-h") if option.name == "help" else (option.flag,)
    default = (option.otherwise or option.default or "") if option.kind.takes_value else ""
    return Word(flags, option.kind.metavar, option.help, default, choices, option.kind.repeats)


def _of_command(name: str, meaning: str, parser: ArgumentParser) -> Command:
    options = tuple(_of_action(one) for one in _actions(parser) if one.option_strings)
    operands = tuple(_of_action(one) for one in _actions(parser) if not one.option_strings)
    return Command(name, meaning, options, operands)


def _of_action(action: Action) -> Word:
    metavar = "" if action.nargs == 0 else str(action.metavar or action.dest)
    choices = tuple(map(str, action.choices or ()))
    meaning = action.help or "print the version"
    return Word(tuple(action.option_strings), metavar, meaning, choices=choices)
