"""The table of causes, as the JSON files beside this module hold it; values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.json import Decoder

from ascend_supervisor.causes.cause import CauseRow

_DECODER = Decoder(list[CauseRow])


def _read() -> Mapping[str, CauseRow]:
    pages = sorted(Path(__file__).parent.glob("*.json"))
    rows = (row for page in pages for row in _DECODER.decode(page.read_bytes()))
    return {row.id: row for row in rows}


CAUSES = _read()
"""By id. It is read when this module is imported: later there may be no descriptor."""


def consequences(ids: Iterable[str], causes: Mapping[str, CauseRow] = CAUSES) -> frozenset[str]:
    """All that follows from any of these, and not the ids themselves unless they do, too."""
    found: set[str] = set()
    to_do = list(ids)
    while to_do:
        row = causes.get(to_do.pop())
        new = [] if row is None else [one for one in row.leads_to if one not in found]
        found.update(new)
        to_do += new
    return frozenset(found)
