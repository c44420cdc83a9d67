"""Each relative link of a page leads to a file, and to a heading of it where it names one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
LINK_IN_A_HEADING = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def link_complaints(text: str, page: Path) -> Iterator[str]:
    """``text`` stands in the file ``page``."""
    for path, anchor in LINK.findall(FENCE.sub("", text)):
        if "://" in path:
            continue
        target = page.parent / path if path else page
        if not target.exists():
            yield f"{path} leads nowhere"
        elif anchor and target.suffix == ".md":
            content = target.read_text(encoding="utf-8") if path else text
            if anchor not in anchors(content):
                yield f"{path} has no heading for #{anchor}"


def anchors(text: str) -> set[str]:
    """As GitHub makes them of the headings: a second one of the same name ends in -1."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        bare = LINK_IN_A_HEADING.sub(r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", bare).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(path):
    assert list(link_complaints(path.read_text(encoding="utf-8"), path)) == []


def test_a_link_that_leads_nowhere_is_found():
    text = "# A `part`, two\n[a](README.md) [b](docs/nothing.md#x) [c](https://a.com#y) [d](#part)"
    assert list(link_complaints(f"{text} [e](#a-part-two)", ROOT / "README.md")) == [
        "docs/nothing.md leads nowhere",
        " has no heading for #part",
    ]


def test_headings_of_the_same_name_are_counted():
    assert anchors("# One\n## 第 二\n```\n# a comment\n```\n## One\n") == {"one", "第-二", "one-1"}
