"""What of a rank table the ranks depend on: two tables that agree in it are the same to them; pure.

Writers rewrite a table with other spaces, another order of keys, another ``version`` or the time of
writing. None of these reaches a rank in a way that matters. The order of servers matters only to
ranks that start together: HCCL compares a checksum of the whole table between them, over its lists
as they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from ascend_supervisor.cluster.rank_table import Entry, Format

LISTS = ("server_list", "super_pod_list", "rank_list")
"""What HCCL reads of a document: servers or ranks, and how they are connected."""


def essence(layout: Format, entries: Sequence[Entry], document: Mapping[str, Any]) -> str:
    """The sha256 of the format, the entries in rank order, and the lists of a ``document``.

    ``document`` is what the ranks read themselves, empty if they get it converted. An entry has its
    ranks, devices, their addresses in their order, and every name and address of its server or pod:
    a pod that was replaced on the same server may have another address. In the lists every key and
    value counts, at any depth, and the order of the elements; the order of keys does not. Of the
    top level nothing else counts, so neither ``version`` nor ``status``, a count of what is listed,
    nor a key that we do not know. Empty for a document that is nested too deep to be written: then
    its bytes must be compared.
    """
    return _digest(layout, entries, _lists(document))


def placement(layout: Format, entries: Sequence[Entry], document: Mapping[str, Any]) -> str:
    """As ``essence``, in whatever order the servers and super pods are listed.

    Ranks that run have the same place in both tables: rank ids are written in them.
    """
    try:
        lists = {key: _in_one_order(listed) for key, listed in _lists(document).items()}
    except orjson.JSONEncodeError:
        return ""
    return _digest(layout, entries, lists)


def _lists(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in LISTS if key in document}


def _in_one_order(listed: Any) -> Any:
    """The same whichever way it is listed; of a super pod, its servers, too."""
    return sorted(map(_super_pod, listed), key=_written) if isinstance(listed, list) else listed


def _super_pod(listed: Any) -> Any:
    if not isinstance(listed, dict) or "server_list" not in listed:
        return listed
    return {**listed, "server_list": _in_one_order(listed["server_list"])}


def _digest(layout: Format, entries: Sequence[Entry], lists: Mapping[str, Any]) -> str:
    told = (layout.value, msgspec.to_builtins(entries), lists)
    try:
        return sha256(_written(told)).hexdigest()
    except orjson.JSONEncodeError:
        return ""


def _written(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
