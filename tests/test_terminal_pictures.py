"""The pictures of terminals in docs/pictures are those of what the program prints now."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.test_docs import ROOT
from tests.test_links import PAGES

pytestmark = pytest.mark.one_python

PICTURES = sorted((ROOT / "docs" / "pictures").glob("terminal-*.svg"))
NAMES = [path.stem.removeprefix("terminal-") for path in PICTURES]
WIDE = 12.2
"""A character's, in pixels."""
MOMENT = re.compile(r"\d\d:\d\d:\d\d\.\d+ ")
SEVERAL = re.compile(r"ranks? [\d, to]+ (started|runs|was|were)\b")
SVG = "{http://www.w3.org/2000/svg}"


def rows(svg: str) -> list[str]:
    """What stands in each row of the terminal, whatever its style."""
    found: dict[str, str] = {}
    for text in ET.fromstring(svg).iter(f"{SVG}text"):  # noqa: S314  (our own)
        before = found.get(text.attrib["y"], "")
        column = round(float(text.attrib["x"]) / WIDE)
        found[text.attrib["y"]] = before.ljust(column) + (text.text or "").replace("\xa0", " ")
    return [row.rstrip() for row in found.values()]


def drawn(name: str, directory: Path) -> str:
    words = (sys.executable, str(ROOT / "scripts" / "terminals"), name, str(directory))
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=100)
    return done.stdout


def said(svg: str, directory: str) -> set[str]:
    """What was said at each moment, without what differs from run to run.

    Several ranks that start or end are told together only if they do so within a moment, and a
    rank may print another line before it is told to stop.
    """
    text = " ".join(row for row in rows(svg) if not row.startswith("[rank "))
    text = text.replace(directory, "DIR")
    return {
        re.sub(r"\d", "", re.sub(r"after [\d. to]+ s", "", one)).strip()
        for one in MOMENT.split(text)
        if not SEVERAL.match(one)
    }


def test_each_picture_is_shown_in_both_languages():
    pages = {path: path.read_text(encoding="utf-8") for path in PAGES}
    for picture in PICTURES:
        showing = [path.name for path, text in pages.items() if f"pictures/{picture.name})" in text]
        translated = {name for name in showing if name.endswith(".zh.md")}
        assert translated, f"{picture.name} is shown on no page in Chinese"
        assert {name.replace(".zh.md", ".md") for name in translated} <= set(showing)


@pytest.mark.parametrize("picture", PICTURES, ids=NAMES)
def test_a_picture_is_text_and_needs_nothing_else(picture):
    text = picture.read_text(encoding="utf-8")
    assert not re.search(r"<script|<image|href|url\(|@import|@font-face", text)
    assert len(rows(text)) > 3


def test_the_failure_comes_first_in_the_picture_of_one():
    lines = rows((ROOT / "docs" / "pictures" / "terminal-failure.svg").read_text(encoding="utf-8"))
    assert lines[0].startswith("$ ascend-supervisor")
    assert "this is the first failure" in lines[2]


@pytest.mark.parametrize("picture", PICTURES, ids=NAMES)
def test_no_word_of_a_picture_is_too_long_for_its_row(picture):
    svg = ET.parse(picture).getroot()  # noqa: S314  (our own)
    width = float(svg.attrib["viewBox"].split()[2])
    words = " ".join(rows(picture.read_text(encoding="utf-8"))).split()
    assert max(map(len, words)) * WIDE < width - 2 * WIDE, "it was broken"


@pytest.mark.parametrize("name", ["failure", "refusal"])
def test_a_picture_says_what_the_program_says(name):
    shown = (ROOT / "docs" / "pictures" / f"terminal-{name}.svg").read_text(encoding="utf-8")
    place = Path("/tmp", secrets.token_hex(4))
    now = said(drawn(name, place), str(place))
    assert said(shown, "/tmp/training") == now, "the words have changed: make terminals"
