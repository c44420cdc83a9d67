"""Masks secrets in a command line or a text before it is shown; what looks like a secret counts.

Either the name shows it (``--token=...``, ``PASSWORD=...``, ``?key=...`` in a URL), or the value
has the format of an issuer's keys. The names of files and tokenizers are left unchanged.

Where a value ends is certain in words and in quotes. Elsewhere a password after a colon, or after
an equals sign with spaces, ends with its line; every other value ends with its word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ascend_supervisor.untrusted_text import printable

MASK = "***"

# How a name of a secret ends; --on-event and --server-check are commands, which may hold one.
# The values of _OF_WORDS may have spaces. The short names count only as a word of their own:
# --obs-sk, AK=.
_OF_WORDS = r"(?:pass(?:word|wd|phrase)s?|notify[_-]url|on[_-]event|server[_-]check|密码|口令)"
_HEADER = r"(?:authorization|(?<![a-z0-9])cookie)"
_ENDS = (
    rf"(?:{_OF_WORDS}|{_HEADER}|secrets?|token|credentials?|signature|密钥|令牌"
    r"|(?:api|access|secret|private|auth|encryption|account)[_.-]?key(?:[_-]?id)?"
    r"|(?<![a-z0-9])(?:pwd|pass|auth|ak|sk|sig))"
)
_SCHEME = (
    r"(?:(?:bearer|basic|digest|negotiate|token|apikey|aws4-hmac-sha256|sdk-hmac-sha256)"
    r"[^\S\n]+(?=\S))?"
)
_FRESH = rf"(?![=>\s]{{0,10}}{_SCHEME}\*{{3}})"
_NEXT_NAME = r"[\w.-]{1,64}\s{0,8}[=:]"

# JSON in JSON, quotes, and lists or objects; what is not closed goes on to the end.
_ENCLOSED = (
    r"(?:\\{1,7}\"[^\n]*?\\{1,7}\"|\\{1,7}'[^\n]*?\\{1,7}'"
    r"|\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|\[[^\]\n]*\]?|\{[^{}\n]*\}?)"
)
_BARE = rf"(?:[^\s\"'&;,\\]|\\[^\"'\n]|,(?![\s\"'\\}}\])]|$|{_NEXT_NAME}))"
# A quote within a word: b'...', ab"c d". Before a space or a bracket it is the end of another one.
_WITHIN = r"(?:\"(?=[^\s\"'&;,:|)\]}])[^\"\n]*\"|'(?=[^\s\"'&;,:|)\]}])[^'\n]*')"
_VALUE = rf"(?:{_ENCLOSED}(?:{_WITHIN}|(?![}}\])]){_BARE})*|{_BARE}(?:{_WITHIN}|{_BARE})*)"


def _pattern(kept: str, secret: str, after: str = "") -> str:
    """What is kept, before and after what is masked, unless it is masked already."""
    return rf"(?P<kept>{kept}){_FRESH}{secret}(?P<after>{after})"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When it is first needed: most command lines need three; all were a tenth of a start."""
    return re.compile(pattern, re.IGNORECASE)


_WITH_MARKS = (
    ("-----", _pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----", r"(?s:.*?)", r"-----END|\Z")),
    ("://", _pattern(r"\b[a-z][a-z0-9+.-]{0,31}://", r"[^\s/\"'?#]+", "@")),
    (
        "://",
        _pattern(
            r"\bhttps://(?:hooks\.slack\.com/|open\.(?:feishu\.cn|larksuite\.com)/"
            r"|[\w.-]{1,64}/api/webhooks/)",
            r"[^\s\"'<>]+",
        ),
    ),
    (
        "=",
        _pattern(r"[?&](?:key|code|x-[a-z]+-(?:credential|security-token))=", r"[^\s\"'&#]+"),
    ),
)
"""Each with what is in every text that has one."""

_NAMED = (
    # A word in quotes, such as '--password=a b' or 'Cookie: a=b; c=d'.
    _pattern(
        rf"(?P<quote>[\"'])[\w.=-]{{0,64}}?{_ENDS}\s{{0,8}}[=:]\s{{0,8}}{_SCHEME}",
        r"(?![\s\"'])(?:(?!(?P=quote))(?:\\.|[^\n\\]))+",
    ),
    _pattern(rf"{_HEADER}[^\S\n]{{0,8}}:[^\S\n]{{0,8}}{_SCHEME}", r"(?![\s\"'])[^\n]+"),
    _pattern(
        rf"{_OF_WORDS}(?:[^\S\n]{{0,8}}:[^\S\n]{{1,8}}|[^\S\n]{{1,8}}=[^\S\n]{{1,8}}|：\s?)",
        rf"(?![\s\"'\[{{])(?:(?![,;&]\s{{0,8}}{_NEXT_NAME})[^\n])+",
    ),
    _pattern(rf"<[\w.:-]{{0,64}}?{_ENDS}>", r"[^<\n]+", "</"),
    _pattern(rf"{_ENDS}\\{{0,7}}[\"']?\s{{0,8}}[=:：]=?>?\s{{0,8}}{_SCHEME}", rf"(?!\s){_VALUE}"),
    # In a list of words, too: ["--token", "abc"].
    _pattern(
        rf"(?:^|(?<=[\s\"'\[(,]))--?[\w.-]{{0,64}}?{_ENDS}(?:[\"'],\s{{0,8}}|\s+)",
        rf"(?![\"']?-){_VALUE}",
    ),
)
"""In every text that has one of these, some name ends as in _ENDS."""

_WITHOUT_NAMES = (
    _pattern(r"\bbearer\s+", r"[\w.~+/=-]{8,}"),
    _pattern(
        "",
        r"(?-i:(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|gh[a-z]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
        r"|glpat-[\w-]{16,}|sk-[\w-]{20,}|xox[a-z]-[\w-]{16,}|AKIA[A-Z0-9]{16}"
        r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*))",
    ),
)

_NAMES_THE_NEXT = rf"--?[\w.-]{{0,64}}?{_ENDS}"


def masked(text: str) -> str:
    """``text``, a command line or a part of one, or the words of a program, without its secrets."""
    text = _masked(text, (pattern for mark, pattern in _WITH_MARKS if mark in text))
    if _compiled(_ENDS).search(text):
        text = _masked(text, _NAMED)
    return _masked(text, _WITHOUT_NAMES)


def _masked(text: str, patterns: Iterable[str]) -> str:
    for pattern in patterns:
        text = _compiled(pattern).sub(rf"\g<kept>{MASK}\g<after>", text)
    return text


def names_a_secret(name: str) -> bool:
    """Whether the value of a variable, a key or an option with this name is masked as a whole."""
    return _names_the_next(f"--{name}")


def _names_the_next(word: str) -> bool:
    return word.startswith("-") and _compiled(_NAMES_THE_NEXT).fullmatch(word) is not None


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """The same for a command line in words: a secret may follow the word that names it."""
    kept = []
    for before, word in zip(("", *words), words, strict=False):
        is_secret = _names_the_next(before) and not word.startswith("-")
        kept.append(MASK if is_secret else _masked_word(word))
    return tuple(kept)


def _masked_word(word: str) -> str:
    """A word of its own ends where it ends: a value with spaces in it is masked as a whole."""
    name, equals, _ = word.partition("=")
    return f"{name}={MASK}" if equals and _names_the_next(name) else masked(word)


DIRECTORY = "PWD"
"""What shells call the working directory is no password."""
_SECRET_WORDS = frozenset(
    {
        *("KEY", "KEYS", "SECRET", "SECRETS", "TOKEN", "TOKENS", "PASSWORD", "PASSWD", "PASS"),
        *("PWD", "CREDENTIAL", "CREDENTIALS", "AUTH", "PRIVATE", "COOKIE", "AK", "SK", "PAT"),
        *("DSN", "WEBHOOK", "SIGNATURE", "PASSPHRASE"),
    }
)
"""Stricter than for command lines: a whole environment goes to others, unread."""
_PEM = "PRIVATE KEY-----"


def masked_environment(environ: Mapping[str, str]) -> bytes:
    """A line for each variable, in the order of their names."""
    pairs = sorted(environ.items())
    lines = (f"{printable(name)}={printable(_of_variable(name, value))}" for name, value in pairs)
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")


def _of_variable(name: str, value: str) -> str:
    if name == DIRECTORY:
        return value
    is_secret = _PEM in value or not _SECRET_WORDS.isdisjoint(name.upper().split("_"))
    return MASK if is_secret or names_a_secret(name) else masked(value)


def masked_document(value: Any) -> Any:
    """A JSON document: texts by the names of their keys, lists of texts as command lines."""
    if isinstance(value, dict):
        return {
            key: MASK if one and names_a_secret(str(key)) else masked_document(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            return list(masked_words(value))
        return [masked_document(one) for one in value]
    return masked(value) if isinstance(value, str) else value
