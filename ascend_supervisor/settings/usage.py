"""The text of ``--help``, made from the table of options."""

from __future__ import annotations

from ascend_supervisor import errors
from ascend_supervisor.settings.kinds import PREFIX, Option
from ascend_supervisor.settings.options import GROUPS

_WIDTH = 79
_COLUMN = 29
_UNBROKEN = "\N{NO-BREAK SPACE}"

USAGE = "ascend-supervisor [OPTIONS] [--] COMMAND [ARG ...]"
EXAMPLE = "ascend-supervisor --restarts 3 --grace 60 -- python /code/train.py"
ABOUT = """\
Starts COMMAND once for every NPU of this machine, as the rank table or the
platform's variables say, keeps what the ranks print, and restarts or ends all
of them when one fails.
"""
RULES = f"""\
Everything from the first word that is no option belongs to COMMAND, which is
run without a shell. --restart-delay can also be set as the environment
variable {PREFIX}RESTART_DELAY or as restart_delay in the file of
--config; the command line wins over the environment, which wins over the file.
S is seconds, or a number with its unit: 250ms, 90s, 5m, 1h. SIZE is bytes, or
64KiB, 20MiB, 1GiB. An option that may be repeated has one value on each line
of its variable, and a list in the file.
"""

EXIT_CODES = f"""\
that of the rank that failed first, 128+n after signal n, or
  0    every rank ended with 0
  {errors.USAGE}   the command line or the configuration is wrong
  {errors.BAD_TABLE}   the rank table is wrong
  {errors.UNAVAILABLE}   a device or a service is unavailable
  {errors.DEFECT}   a defect of this program
  {errors.CANNOT_WRITE}   a directory or a file cannot be written
  {errors.TABLE_NOT_READY}   the rank table was not completed in time
  {errors.HANG}  the ranks made no progress
  {errors.CANNOT_EXECUTE}  COMMAND cannot be executed
  {errors.NOT_FOUND}  COMMAND was not found
"""


def help_text() -> str:
    """The whole help, at most 79 columns wide."""
    groups = (
        "\n".join((f"{title}:", *(_entry(option) for option in options)))
        for title, options in GROUPS
    )
    head = f"usage: {USAGE}\n\n{ABOUT}\nexample: {EXAMPLE}\n\n{RULES}"
    return "\n".join((head, "\n\n".join(groups), "", f"Exit codes: {EXIT_CODES}"))


def _entry(option: Option) -> str:
    """An option and its meaning, in two columns."""
    from textwrap import fill  # noqa: PLC0415 - only --help pays for it

    left = f"  {option.flag} {option.kind.metavar}".rstrip()
    default = option.otherwise or option.default
    shows_default = default and option.kind.takes_value
    meaning = f"{option.help} (default:{_UNBROKEN}{default})" if shows_default else option.help
    indent = " " * _COLUMN
    lines = fill(
        meaning,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return left + lines[len(left) :].replace(_UNBROKEN, " ")
