"""What a terminal can do, and whether text for people has colours; pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ascend_supervisor.settings.values import Color

PLAIN = frozenset({"", "dumb"})
"""Terminals that cannot erase, and those of which nothing is known (TERM)."""


class Terminal(Struct, frozen=True):
    """The ``kind`` of terminal that stdout and stderr are, if they are one, and --color.

    ``no_color``: NO_COLOR is set (https://no-color.org).
    """

    kind: str = ""
    color: Color = "auto"
    no_color: bool = False

    @property
    def can_erase(self) -> bool:
        return self.kind not in PLAIN

    def has_colours(self, *, is_terminal: bool) -> bool:
        """Whether what is written there has colours."""
        if self.color == "auto":
            return is_terminal and self.can_erase and not self.no_color
        return self.color == "always"


def terminal_of(environ: Mapping[str, str], color: Color) -> Terminal:
    """As the variables of ``environ`` describe it."""
    return Terminal(environ.get("TERM", ""), color, no_color=bool(environ.get("NO_COLOR")))
