"""What can be written after our two programs, as parsers: completion and man pages read them."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial
from typing import Any

from ascend_supervisor.ctl.arguments import command_line
from ascend_supervisor.settings.kinds import Option
from ascend_supervisor.settings.options import GROUPS
from ascend_supervisor.settings.usage import USAGE


def supervisor_parser() -> ArgumentParser:
    """The options of ascend-supervisor, whose own table says more than argparse can read."""
    parser = ArgumentParser("ascend-supervisor", USAGE, add_help=False)
    for title, options in GROUPS:
        group = parser.add_argument_group(title)
        for option in options:
            flags = (option.flag, "-h") if option.name == "help" else (option.flag,)
            group.add_argument(*flags, help=_meaning(option), **_value(option))
    return parser


def ctl_parser() -> ArgumentParser:
    """Those of ascend-supervisorctl, and its commands."""
    return command_line()


def _meaning(option: Option) -> str:
    default = (option.otherwise or option.default) if option.kind.takes_value else None
    return f"{option.help} (default: {default})" if default else option.help


def _value(option: Option) -> dict[str, Any]:
    """What an option takes, as argparse says it."""
    read = option.kind.read
    if not option.kind.takes_value:
        return {"action": "store_true"}
    return {
        "action": "append" if option.kind.repeats else "store",
        "nargs": None if option.kind.needs_value else "?",
        "metavar": option.kind.metavar.strip("[]"),
        "choices": read.keywords.get("choices") if isinstance(read, partial) else None,
    }
