"""What we refuse, each with its exit code; pure. Every message says what the reader can do."""

from __future__ import annotations

from typing import ClassVar

USAGE = 64
BAD_TABLE = 65
UNAVAILABLE = 69
DEFECT = 70
CANNOT_WRITE = 73
TABLE_NOT_READY = 75
HANG = 124
CANNOT_EXECUTE = 126
NOT_FOUND = 127


class Refusal(Exception):
    """The supervisor ends by its own decision; ``faults`` holds a sentence for each fault.

    ``is_retryable``: the same start may succeed later, or on another machine. ``is_of_server``: it
    may be this machine that lacks what another one has.
    """

    exit_code: ClassVar[int] = DEFECT
    is_retryable: ClassVar[bool] = False
    is_of_server: ClassVar[bool] = False

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(self.faults)


class SettingsRefused(Refusal):
    """The command line, the environment or the configuration file is wrong."""

    exit_code = USAGE


class TableRefused(Refusal):
    """A rank table says it is completed, but is wrong, or does not hold this machine."""

    exit_code = BAD_TABLE


class LeftOut(TableRefused):
    """The rank table of a followed cluster does not hold this server any more."""


class TableTimeout(Refusal):
    """The rank table was not completed in time."""

    exit_code = TABLE_NOT_READY
    is_retryable = True


class Unavailable(Refusal):
    """A device or a service that the job needs cannot be had."""

    exit_code = UNAVAILABLE
    is_retryable = True
    is_of_server = True


class CannotWrite(Refusal):
    """A directory or file that must be written cannot be made."""

    exit_code = CANNOT_WRITE
    is_of_server = True


class CannotExecute(Refusal):
    """The command was found, but cannot be executed."""

    exit_code = CANNOT_EXECUTE
    is_of_server = True


class CommandNotFound(Refusal):
    """The command was not found."""

    exit_code = NOT_FOUND
    is_of_server = True
