"""Regular expressions that are compiled when they are first used, or when there is time; pure.

There are seventy, which took a twelfth of the CPU of a short job, and most jobs need none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

_LATER: list[_Later] = []


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``; a ``text`` that is wrong is found at the first use."""
    later = _Later(text, flags)
    _LATER.append(later)
    return cast("re.Pattern[str]", later)


def compiled() -> Iterator[None]:
    """Compiles one after the other, so that who goes through them may do something between."""
    for later in _LATER:
        later.compile()
        yield


class _Later:
    """Has what a compiled pattern has."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern = text
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    def compile(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        return self._compiled

    def __getattr__(self, name: str) -> object:
        """A method, of which the next call does not come here."""
        found: object = getattr(self.compile(), name)
        setattr(self, name, found)
        return found
