"""Every row of the table of causes: its signs, its arrows, its form."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from ascend_supervisor.causes.cause import Blame, CauseRow, Sign
from ascend_supervisor.causes.scan import matches
from ascend_supervisor.causes.table import CAUSES, consequences
from ascend_supervisor.evidence.acl_codes import acl_codes, is_generic
from ascend_supervisor.evidence.cann_codes import is_inner, logged_code, meaning_of, spoken_code
from tests.causes.written import FOLDER, written

PAGES = sorted(FOLDER.glob("*.json"))
SIGNS = [(row, sign) for row in CAUSES.values() for sign in row.signs]
CODES = [row for row in CAUSES.values() if row.id[-4:].isdecimal()]
OF_THE_DEVICE = {"507001", "507012"}
"""Its own task scheduler has failed."""
ELSEWHERE = re.compile(
    r"^look (?:at|for) "
    r"(?:the first \[ERROR\] of|an earlier|.{0,30}\b(?:before|above) (?:it|this|the))"
)
"""What stands elsewhere tells the cause, so that these words do not."""
CHINESE = range(0x4E00, 0xA000)
OTHER_TERMS = re.compile(r"堆栈|张量|(?<![a-z_./'])checkpoint(?![a-z_./='])")
"""The pages say 调用栈, tensor and CheckPoint."""


def name(value: object) -> str:
    if isinstance(value, CauseRow):
        return value.id
    return value.seen if isinstance(value, Sign) else ""


def shows(line: str, row: CauseRow, sign: Sign) -> bool:
    return bool(list(matches(line.splitlines(), sign.where, [replace(row, signs=(sign,))])))


@pytest.mark.parametrize(("row", "sign"), SIGNS, ids=name)
def test_a_sign_is_in_its_example_and_not_in_what_looks_like_it(row, sign):
    assert shows(sign.example, row, sign)
    assert sign.unlike
    assert not shows(sign.unlike, row, sign)


@pytest.mark.parametrize("row", CODES, ids=name)
def test_a_code_is_recognized_and_told_in_one_sentence(row):
    if row.id.isdecimal():
        assert acl_codes([f"error code is {row.id}"]) == [row.id]
        assert not is_generic(row.id)
    else:
        assert spoken_code([f"{row.id}: text"]) == logged_code([f"x={row.id}"]) == row.id
        assert not is_inner(row.id)
    assert len(meaning_of(row.id)) < 160


@pytest.mark.parametrize("row", CAUSES.values(), ids=name)
def test_a_row_says_what_happened_and_what_to_do_in_two_languages(row):
    assert any(ord(letter) in CHINESE for letter in row.text_zh)
    assert any(ord(letter) in CHINESE for letter in row.remedy_zh)
    assert not OTHER_TERMS.search(row.text_zh + row.remedy_zh)
    assert not any(ord(letter) in CHINESE for letter in row.text + row.remedy)
    assert not {one for one in row.leads_to if one not in CAUSES}


def test_a_row_that_only_the_type_of_an_exception_tells_claims_nothing():
    """Of 21 wrong causes of failures in public threads 14 were such rows."""
    own = [row for row in CAUSES.values() if row.blame is Blame.OWN]
    unknown = [row for row in own if row.layer == "unknown" if not ELSEWHERE.search(row.remedy)]
    types = {sign.seen.strip("^: ") for row in unknown for sign in row.signs}
    assert types >= {"KeyError", "TypeError", "ValueError", "AssertionError", "AttributeError"}
    assert all(sign.where == "exception" for row in unknown for sign in row.signs)
    assert [one for one in types if not one.isalpha()] == []
    for row in unknown:
        assert "whose code it is" in row.remedy
        assert "属于脚本还是软件包" in row.remedy_zh


def test_a_row_that_only_tells_where_the_npu_failed_claims_nothing():
    """The operator, what it was given, CANN or the device: its words do not tell."""
    rows = [row for row in CAUSES.values() if "in the rank's plog" in row.remedy]
    assert {"161002", "507015", "507018", "561002"} <= {row.id for row in rows}
    assert {row.id for row in rows if row.blame is Blame.UNKNOWN} == {
        row.id for row in rows if row.layer == "unknown" or row.id in OF_THE_DEVICE
    }


def test_a_row_that_sends_its_reader_to_other_words_claims_nothing():
    """Of 6 wrong causes of trainings and servers in public threads 2 were such rows."""
    rows = [row for row in CAUSES.values() if ELSEWHERE.search(row.remedy)]
    assert {"dataloader-worker-crashed", "nccl-system-error", "cuda-assert"} <= {r.id for r in rows}
    assert [row.id for row in rows if row.layer not in {"unknown", "cluster"}] == []


def test_a_row_of_the_script_or_a_package_blames_neither():
    """Who raised it decides whose it is."""
    bare = [row for row in CAUSES.values() if row.is_bare]
    assert {"none-value", "argument-unknown", "division-by-zero"} <= {row.id for row in bare}
    for row in bare:
        assert row.layer == "user"
        assert "script" not in row.text
        assert "脚本" not in row.text_zh
        assert all(sign.where == "exception" for sign in row.signs)


def test_no_cause_follows_from_itself():
    assert [one for one in CAUSES if one in consequences([one])] == []


def test_every_id_is_there_once():
    rows = [row["id"] for page in PAGES for row in json.loads(page.read_text())]
    assert len(rows) == len(set(rows)) == len(CAUSES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_written_in_one_way(page):
    """So that a change is one row in a review: ``python -m tests.causes.written`` writes it so."""
    text = page.read_text(encoding="utf-8")
    assert text == written(text)
