"""The files of one log: ``name`` is the newest, ``name.1`` the one before it, and so on.

They may be renamed at any time; an open file is recognised by its inode.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.regular_file import open_regular_file

_MISSING_AFTER_THE_LAST = 2


class RotatedLog(Struct, frozen=True):
    """The log whose newest file is at ``path``."""

    path: Path

    def opened_after(self, descriptor: int) -> int:
        """A descriptor of the file that follows this one; raises OSError."""
        while True:
            number = self._number_of(descriptor)
            file = open_regular_file(self._numbered(number - 1) if number else self.path)
            if number == self._number_of(descriptor):
                return file
            os.close(file)  # a rotation came between

    def opened_before(self, descriptor: int) -> int:
        """A descriptor of the file before this one; raises OSError if there is none."""
        while True:
            number = self._number_of(descriptor)
            if not number and not self._is_newest(descriptor):
                raise FileNotFoundError(f"{self.path} was replaced")
            file = open_regular_file(self._numbered(number + 1))
            if number == self._number_of(descriptor):
                return file
            os.close(file)

    def _number_of(self, descriptor: int) -> int:
        """The rotation number of this file; 0 if it has none.

        While the files are being renamed, from the highest number down, one number is missing.
        """
        missing = number = 0
        while missing < _MISSING_AFTER_THE_LAST:
            number += 1
            try:
                if os.path.samestat(self._numbered(number).stat(), os.fstat(descriptor)):
                    return number
            except OSError:
                missing += 1
        return 0

    def _is_newest(self, descriptor: int) -> bool:
        return os.path.samestat(self.path.stat(), os.fstat(descriptor))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path
