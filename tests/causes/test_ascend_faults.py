"""Each fault that Huawei's diagnosis (ascend-fd) knows has a row of the table, or a reason why not.

``tests/data/ascend_faults.json`` holds the ids of its faults and which leads to which;
``ascend_faults_apart.json`` what our table leaves out, or tells in another order, and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from ascend_supervisor.causes.table import CAUSES, consequences

DATA = Path(__file__).parents[1] / "data"
KNOWN: Mapping[str, Sequence[str]] = json.loads((DATA / "ascend_faults.json").read_text())
APART: Mapping[str, Sequence[Mapping[str, object]]] = json.loads(
    (DATA / "ascend_faults_apart.json").read_text()
)
SHARED = Path(__file__).parents[3] / "shared" / "data" / "ascend_faults.json"
CODE = 6
"""The characters of a code of CANN at the end of an id."""


def apart(kind: str) -> dict[str, str]:
    """What has a reason, with it."""
    return {one: str(group["reason"]) for group in APART[kind] for one in _of(group)}


def _of(group: Mapping[str, object]) -> Sequence[str]:
    of = group["of"]
    assert isinstance(of, list)
    return of


@cache
def rows_of(fault: str) -> frozenset[str]:
    """The rows of our table that tell it."""
    code = fault[-CODE:] if "_ERRCODE_Custom_" in fault else ""
    rows = {row.id for row in CAUSES.values() if fault in row.faults or row.id == code}
    return frozenset(rows)


def is_held(fault: str, other: str) -> bool:
    """Whether our table says that ``fault`` leads to ``other``, or takes both for one."""
    rows, others = rows_of(fault), rows_of(other)
    return bool(rows & others) or not others.isdisjoint(consequences(rows))


def test_each_fault_has_a_row_or_a_reason_and_not_both():
    unseen = apart("unseen")
    assert {fault for fault in KNOWN if not rows_of(fault)} == set(unseen)
    assert len(KNOWN) == 445


def test_no_row_names_a_fault_that_is_not_there():
    named = {fault for row in CAUSES.values() for fault in row.faults}
    assert named <= set(KNOWN)


def test_each_arrow_is_in_our_table_or_has_a_reason_and_not_both():
    without_row = {**apart("unseen"), **apart("codes")}
    open_arrows = {
        f"{fault} -> {other}"
        for fault, others in KNOWN.items()
        for other in others
        if not {fault, other} & set(without_row) and not is_held(fault, other)
    }
    assert open_arrows == set(apart("arrows"))


def test_a_code_with_a_reason_has_no_row_and_is_led_to():
    led_to = {other for others in KNOWN.values() for other in others}
    assert not [code for code in apart("codes") if code not in led_to or rows_of(code)]


@pytest.mark.parametrize("kind", APART)
def test_a_reason_is_a_sentence(kind):
    for reason in apart(kind).values():
        assert reason[0].isupper()
        assert reason.endswith(".")


@pytest.mark.skipif(not SHARED.exists(), reason="only a session has the file of MindCluster's tool")
def test_the_ids_and_arrows_are_those_of_the_tool():
    shared = json.loads(SHARED.read_text(encoding="utf-8"))
    arrows = {fault: list(dict.fromkeys(one["leads_to"])) for fault, one in shared.items()}
    assert arrows == KNOWN
