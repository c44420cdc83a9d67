"""What is known of the cause of a failure, in two languages, and which one is told; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ascend_supervisor.causes.cause import Blame, CauseRow, Layer

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


_PAGES: Mapping[Language, str] = {"en": "docs/causes.md", "zh": "docs/causes.zh.md"}


class Diagnosis(Struct, frozen=True):
    """A row of the table of causes, for one failure; ``see`` is the place that says more of it.

    ``rank`` is the rank that the cause is in; null if it is not known.
    """

    id: str
    text: str
    remedy: str
    text_zh: str
    remedy_zh: str
    layer: Layer
    is_consequence: bool
    rank: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    see: str = ""

    @property
    def leads(self) -> bool:
        """Whether it says more than the words of the failure, and so comes before them."""
        return self.layer != "unknown"

    def told(self, language: Language) -> str:
        """The cause, what to do, and the id to look up, on one line."""
        separator = "；" if language == "zh" else "; "
        return f"{separator.join(self.words(language))} [{self.id}]"

    def words(self, language: Language) -> tuple[str, str]:
        """The cause, and what to do: two clauses."""
        if language == "zh":
            return self.text_zh, self.remedy_zh
        return self.text, self.remedy

    def place(self, language: Language) -> str:
        """The place that says more of it, in this language."""
        return self.see.replace(_PAGES["en"], _PAGES[language])


def diagnosis_by(row: CauseRow, rank: int | None) -> Diagnosis:
    """What the table says of it."""
    return Diagnosis(
        row.id,
        row.text,
        row.remedy,
        row.text_zh,
        row.remedy_zh,
        row.layer,
        row.blame is Blame.CONSEQUENCE,
        rank,
        f"{_PAGES['en']}#{row.id.lower()}",
    )
