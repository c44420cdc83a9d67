"""The language in which a cause is told; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "zh"]
LanguageChoice = Literal["auto", "en", "zh"]
VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""The first that is set counts, as for the messages of all programs (POSIX)."""


def language_of(choice: LanguageChoice, environ: Mapping[str, str]) -> Language:
    """For ``auto`` Chinese where the locale is Chinese, else English."""
    if choice != "auto":
        return choice
    locale = next(filter(None, map(environ.get, VARIABLES)), "")
    return "zh" if locale.lower().startswith("zh") else "en"
