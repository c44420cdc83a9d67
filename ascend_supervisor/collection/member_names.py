"""Names in an archive: relative, safe, and each once, whatever names files have; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_CHARACTERS = 180
_STRANGE = re.compile(r"[^A-Za-z0-9._+=@,~-]")


def member_name(*parts: str) -> str:
    """A relative path; every part is one component without a strange character.

    Two files may get the same name: see MemberNames.
    """
    return "/".join(map(_component, parts))


def _component(part: str) -> str:
    cut = _STRANGE.sub("_", part)[-MOST_CHARACTERS:]
    return cut.replace(".", "_", 1) if not cut.strip(".") and cut else cut or "_"


class MemberNames:
    """Gives every name once: the second ``logs/a.txt`` becomes ``logs/2/a.txt``."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def free(self, name: str) -> str:
        found = next(one for one in _candidates(name) if one.casefold() not in self._given)
        self._given.add(found.casefold())
        return found


def _candidates(name: str) -> Iterator[str]:
    yield name
    folder, slash, file = name.rpartition("/")
    number = 2
    while True:
        yield f"{folder}{slash}{number}/{file}"
        number += 1
