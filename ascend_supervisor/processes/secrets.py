"""Masks secrets in a command line before it is shown; anything that looks like a secret counts.

Either the name shows it (``--token=...``, ``PASSWORD=...``, ``?key=...`` in a URL), or the value
has the format of an issuer's keys. The names of files and tokenizers are left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"

# How a name of a secret ends; --on-event and --server-check are commands, which may hold one.
# The short ones count only as a word of their own: --obs-sk, AK=.
_ENDS = (
    r"(?:pass(?:word|wd|phrase)s?|secrets?|token|credentials?|signature|authorization"
    r"|notify[_-]url|on[_-]event|server[_-]check"
    r"|(?:api|access|secret|private|auth|encryption|account)[_.-]?key(?:[_-]?id)?"
    r"|(?<![a-z0-9])(?:pwd|pass|auth|ak|sk|sig|cookie))"
)
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"?|'[^']*'?"
_VALUE = rf"(?:{_QUOTED}|[^\s\"'&;,]+)"
_SCHEME = r"(?:(?:bearer|basic)\s+)?"

# What is kept is a group of its own, before and after what is masked.
_ASSIGNED = re.compile(
    rf"({_ENDS}\\?[\"']?\s{{0,8}}[=:]\s{{0,8}}{_SCHEME})(?!\s){_VALUE}()", re.IGNORECASE
)
_FOLLOWING = re.compile(
    rf"((?:^|(?<=\s))--?[\w.-]{{0,64}}?{_ENDS}\s+)(?!-){_VALUE}()", re.IGNORECASE
)
_IN_QUERY = re.compile(
    r"([?&](?:key|code|x-[a-z]+-(?:credential|security-token))=)[^\s\"'&#]+()", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]{0,31}://)[^\s/@\"']+(@)", re.IGNORECASE)
_BEARER = re.compile(r"(\bbearer\s+)[\w.~+/=-]{8,}()", re.IGNORECASE)
_SHAPES = re.compile(
    r"()(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|gh[a-z]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|sk-[\w-]{20,}|AKIA[A-Z0-9]{16}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)()"
)
_PATTERNS = (_IN_ADDRESS, _IN_QUERY, _ASSIGNED, _FOLLOWING, _BEARER, _SHAPES)

_NAMES_THE_NEXT = re.compile(rf"--?[\w.-]{{0,64}}?{_ENDS}", re.IGNORECASE)


def masked(text: str) -> str:
    """``text``, a command line or a part of one, without the secrets in it."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}\g<2>", text)
    return text


def masked_variable(name: str, value: str) -> str:
    """The value of a variable, a key or an option with this name."""
    return MASK if _NAMES_THE_NEXT.fullmatch(f"--{name}") else masked(value)


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """The same for a command line in words: a secret may follow the word that names it."""
    kept = []
    for before, word in zip(("", *words), words, strict=False):
        is_secret = _NAMES_THE_NEXT.fullmatch(before) and not word.startswith("-")
        kept.append(MASK if is_secret else _masked_word(word))
    return tuple(kept)


def _masked_word(word: str) -> str:
    """A word of its own ends where it ends: a value with spaces in it is masked as a whole."""
    name, equals, _ = word.partition("=")
    return f"{name}={MASK}" if equals and _NAMES_THE_NEXT.fullmatch(name) else masked(word)
