"""Environments, command lines and documents without the secrets that their names or forms show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_supervisor.processes.secrets import MASK, masked, masked_words, names_a_secret
from ascend_supervisor.untrusted_text import printable

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
    lines = (f"{printable(name)}={printable(_masked(name, value))}" for name, value in pairs)
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")


def _masked(name: str, value: str) -> str:
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
