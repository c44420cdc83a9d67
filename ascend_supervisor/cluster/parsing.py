"""Bytes to a RankTable, whatever format they are in; pure.

The readers of the formats are in ``formats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_supervisor.cluster import formats
from ascend_supervisor.cluster.rank_table import (
    PODS,
    Device,
    Entry,
    Format,
    NotReady,
    RankTable,
    converted,
    essence,
    placement,
    warnings_about,
)
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.files.untrusted_json import (
    Cursor,
    Misfit,
    NotJson,
    parse_json,
    refuse_doubles,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


MAX_BYTES = 64 * 1024 * 1024
_READY = ("completed", "complete")  # one producer spells it "complete"
_MEANT = frozenset({*_READY, "ready", "done", "finished", "success"})
"""What people write in its place, in any case."""
_CORRECT = "correct the document"
_TO_BE_SAID = 'if the table is whole, write "status": "completed" in it'


def parse(data: bytes) -> RankTable | NotReady:
    """The table in ``data``; raises TableRefused when it says it is completed but is wrong.

    Torn reads are normal: anything that is not a JSON object is not ready, rather than wrong.
    """
    if len(data) > MAX_BYTES:
        raise TableRefused(f"$: expected at most {MAX_BYTES} bytes, found {len(data)}")
    if not data or data.isspace():
        return NotReady("the file is empty")
    try:
        top = parse_json(data)
    except NotJson as error:
        lasting = NotReady(f"not valid JSON, and unchanged for a while: {error}", advice=_CORRECT)
        advice = PODS if error.is_cut_short else f"{_CORRECT}, if nobody is writing it now"
        return NotReady(f"not valid JSON yet: {error}", lasting=lasting, advice=advice)
    except Misfit as misfit:
        raise TableRefused(str(misfit)) from misfit
    if not isinstance(top.value, dict):
        return NotReady(f"the top level is {shown(top.value)}, not an object", advice=_CORRECT)
    if reason := _not_completed(top):
        return NotReady(reason, advice=_advice(top), is_said="status" in top.value)
    try:
        refuse_doubles(data, top)
        return _completed(top, data)
    except Misfit as misfit:
        raise TableRefused(str(misfit)) from misfit


def _not_completed(top: Cursor) -> str:
    """Why the table is not completed; empty if it is, or can never be one of ours."""
    if "status" in top.value:
        status = top.value["status"]
        return "" if status in _READY else f"status is {shown(status)}"
    if formats.is_whole(top) or _is_for_inference(top):
        return ""
    return "no 'status'"


def _advice(top: Cursor) -> str:
    """What to do about a table that may never be completed by waiting."""
    status = top.value.get("status")
    word = status.strip().lower() if isinstance(status, str) else ""
    if word == "failed":
        return "what writes it says that it has failed: see the log of that program"
    return _TO_BE_SAID if word in _MEANT else PODS


def _completed(top: Cursor, data: bytes) -> RankTable:
    layout = _format(top)
    listed = _READERS[layout](top)
    entries = tuple(sorted(map(_entry, listed), key=_first_rank))
    holders = [entry for entry in entries if entry.devices]
    is_converted = layout in (Format.TEMPLATE_2, Format.LAB)
    document = {} if is_converted else top.value
    return RankTable(
        format=layout,
        entries=entries,
        world_size=sum(len(entry.devices) for entry in holders),
        servers=len(holders if layout is Format.A5 else {entry.server_id for entry in holders}),
        document=converted(holders) if is_converted else data,
        warnings=warnings_about(layout, entries),
        essence=essence(layout, entries, document),
        placement=placement(layout, entries, document),
    )


_READERS: Mapping[Format, Callable[[Cursor], Iterable[formats.Listed]]] = {
    Format.TEMPLATE_1: formats.servers,
    Format.TEMPLATE_2: formats.pods,
    Format.SUPER_POD: formats.super_pods,
    Format.A5: formats.a5,
    Format.LAB: formats.lab,
}


def _format(top: Cursor) -> Format:
    if formats.is_2_0(top) and top.get("group_list") is None:
        return Format.A5
    if top.get("group_list") is not None:
        return _group_format(top)
    if top.get("server_list") is not None:
        super_pod = top.get("super_pod_list") is not None or top.get("version") == "1.2"
        return Format.SUPER_POD if super_pod else Format.TEMPLATE_1
    if _is_for_inference(top):
        raise Misfit(
            "$: expected a table for training, found 'server_group_list', a table of MindIE for "
            "inference; name another file with --rank-table"
        )
    raise Misfit("$: expected 'group_list', 'server_list' or 'rank_list', found none of them")


def _is_for_inference(top: Cursor) -> bool:
    ours = ("group_list", "server_list", "rank_list")
    return top.get("server_group_list") is not None and not any(map(top.get, ours))


def _group_format(top: Cursor) -> Format:
    instance = formats.first_instance(top)
    if instance is None or instance.get("pod_name") is not None:
        return Format.TEMPLATE_2
    if instance.get("rank_id") is not None:
        return Format.LAB
    expected = "'pod_name' (template 2) or 'rank_id' (lab group_list)"
    raise Misfit(f"{instance.path}: expected {expected}, found neither")


def _entry(listed: formats.Listed) -> Entry:
    return Entry(
        tuple([Device(*row) for row in listed.rows]),
        listed.server_id,
        listed.pod_name,
        listed.host_ip,
        listed.container_ip,
        listed.pod_ip,
        listed.server_ip,
    )


def _first_rank(entry: Entry) -> tuple[bool, int]:
    """Sorts entries by their lowest rank, and those without devices behind them all."""
    return not entry.devices, min((device.rank for device in entry.devices), default=0)
