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

PICTURES = sorted((ROOT / "docs" / "pictures").glob("terminal-*.svg"))
NAMES = [path.stem.removeprefix("terminal-") for path in PICTURES]
COLUMNS, WIDE, MARGIN = 108, 7.8, 12.0
SEVERAL = re.compile(r"[\d:.]+ ranks? [\d, to]+ (started|runs|was|were)\b")
SVG = "{http://www.w3.org/2000/svg}"


def rows(svg: str) -> list[str]:
    """What stands in each row of the terminal, whatever its style."""
    found: dict[str, str] = {}
    for text in ET.fromstring(svg).iter(f"{SVG}text"):  # noqa: S314  (our own)
        before = found.get(text.attrib["y"], "")
        column = round((float(text.attrib["x"]) - MARGIN) / WIDE)
        found[text.attrib["y"]] = before.ljust(column) + (text.text or "")
    return list(found.values())


def drawn(name: str, directory: Path) -> str:
    words = (sys.executable, str(ROOT / "scripts" / "terminals"), name, str(directory))
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=100)
    return done.stdout


def said(svg: str, directory: str) -> set[str]:
    """The lines, without spaces and what differs from run to run; those that were folded whole.

    Several ranks that start or end are told together only if they do so within a moment.
    """
    text = "".join(row if len(row) >= COLUMNS - 1 else f"{row}\n" for row in rows(svg))
    lines = [line for line in text.splitlines() if not SEVERAL.match(line)]
    masked = re.sub(r"after [\d. to]+ s", "", "\n".join(lines).replace(directory, "DIR"))
    return set(re.sub(r"[\d ]", "", masked).splitlines())


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


@pytest.mark.parametrize("name", ["failure", "refusal"])
def test_a_picture_says_what_the_program_says(name):
    """The terminal folds lines where it did, as the path is as long."""
    shown = (ROOT / "docs" / "pictures" / f"terminal-{name}.svg").read_text(encoding="utf-8")
    place = Path("/tmp", secrets.token_hex(len("training") // 2))
    now = said(drawn(name, place), str(place))
    assert said(shown, "/tmp/training") == now, "the words have changed: make terminals"
