"""docs/progress.md holds true, in both languages: formats, messages, categories, limits, sentences.

Every checker gives a list of complaints, and is shown to complain about a broken page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import fields

from ascend_supervisor.life import Notified
from ascend_supervisor.notify_socket.messages import after
from ascend_supervisor.probes.training import NOTIFIED
from ascend_supervisor.progress import pace
from ascend_supervisor.progress.account import CATEGORIES, KeptAccount
from ascend_supervisor.progress.bars import BARS, FAST_DIGITS, SIGN, bar_of
from ascend_supervisor.progress.pace import FIRST_STEP_SECONDS
from ascend_supervisor.progress.pattern_format import LIMIT_SECONDS, format_of_pattern
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.progress.reader import FORMATS
from ascend_supervisor.progress.records import LONGEST
from ascend_supervisor.progress.step_format import Numbers, Tells
from ascend_supervisor.progress.words import LOSSES, account_sentence
from tests.running import python
from tests.test_docs import READMES, SECTION, between, chapter, differences, page, rows

PAGES = ("docs/progress.md", "docs/progress.zh.md")
CHECKPOINTS, RESUMES = {"checkpoints", "CheckPoint"}, {"resumes", "续训位置"}


# The formats -----------------------------------------------------------------------------------


def cells(row: str) -> list[str]:
    """Those of one row of a table; a bar in a line is written with a backslash."""
    split = re.split(r"(?<!\\)\|", row.strip("|"))
    return [cell.strip().replace("\\|", "|") for cell in split]


def format_of(line: str) -> str:
    """The name of the format in which the program reads a step in ``line``."""
    bar = bar_of(line) if SIGN in line else None
    if bar is not None:
        return bar.label.format.name if bar.label else ""
    found = (one.name for one in FORMATS if one.sign in line and one.find(line))
    return next(found, "")


def told_besides(name: str) -> tuple[bool, bool]:
    """Whether a format tells checkpoints, and resumes."""
    tells = {one.tells for one in FORMATS if one.name == name}
    return bool(tells & {Tells.SAVING, Tells.SAVED}), Tells.RESUMED in tells


def format_complaints(text: str) -> Iterator[str]:
    """Whether the table has every format that tells steps, and a line of each."""
    table = [cells(row) for row in between(text, "formats").splitlines()[2:]]
    known = {one.name for one in FORMATS if one.tells is Tells.STEP} | {bar.name for bar in BARS}
    yield from differences(sorted(known), sorted(row[0].strip("`") for row in table), "format")
    for name, _, besides, line in ([cell.strip("`") for cell in row] for row in table):
        if format_of(line) != name:
            yield f"{name}: {line} is read as {format_of(line) or 'nothing'}"
        words = set(filter(None, re.split("[,、] *", besides)))
        if (bool(words & CHECKPOINTS), bool(words & RESUMES)) != told_besides(name):
            yield f"{name}: tells {told_besides(name)}"


@pytest.mark.parametrize("name", PAGES)
def test_the_table_of_formats_is_that_of_the_program(name):
    assert list(format_complaints(page(name))) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("| `megatron` |", "| `megaton` |"),
        ("`step:1 - timing", "`step 1 - timing"),
        ("| checkpoints, resumes |", "| checkpoints |"),
    ],
)
def test_a_wrong_table_of_formats_is_found(right, wrong):
    broken = page(PAGES[0]).replace(right, wrong, 1)
    assert broken != page(PAGES[0])
    assert list(format_complaints(broken))


# The messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_each_message_of_the_page_is_understood_and_no_other_is(name):
    told = [row[0] for row in rows(between(page(name), "messages"))]
    known = after("\n".join(told).encode(), None, 5.0)
    assert known == Notified(
        5.0, step=1200, step_at=5.0, steps=5000, step_seconds=2.1, checkpoint=1000
    )


EXAMPLES = {
    "python": ("step, steps = 3, 3\n", "import time; time.sleep(0.5)\n"),
    "shell": ("", "sleep 0.5\n"),
}
"""What stands before and after an example in a program."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_page_tells_its_steps(supervised, name):
    begin, end = EXAMPLES[name]
    block = between(page(PAGES[0]), name)
    source = begin + block.partition("\n")[2].removesuffix("```\n") + end
    job = supervised("--standalone", "1", *(python(source) if name == "python" else sh(source)))
    assert job.end() == 0
    (started,) = job.all("training.started")
    assert started["format"] == NOTIFIED
    last = job.all("training.progress")[-1]
    assert (last["step"], last["steps"]) == (3, 3)


def sh(source: str) -> tuple[str, ...]:
    return ("--", "sh", "-ec", source)


@pytest.mark.parametrize("name", PAGES)
def test_the_pattern_of_the_page_tells_steps(name):
    (pattern,) = re.findall(r"--progress-pattern '([^']+)'", page(name))
    assert format_of_pattern(pattern).find("done 12 of 60") == Numbers(12, 60)


# The account of the time -----------------------------------------------------------------------


def account_complaints(text: str) -> list[str]:
    """Whether the table has each category, and the words of the sentence for it."""
    table = {row[0]: row[2] for row in rows(between(text, "account"))}
    words: dict[str, str] = {"training": "trained", **LOSSES}
    return differences(sorted(CATEGORIES), sorted(table), "category") + [
        f"{name}: {words.get(name)}" for name, told in table.items() if words.get(name) != told
    ]


@pytest.mark.parametrize("name", PAGES)
def test_the_categories_of_the_account_are_those_of_the_program(name):
    assert account_complaints(page(name)) == []


@pytest.mark.parametrize(
    ("right", "wrong"), [("| `stalled` |", "| `stuck` |"), ("| of start |", "| of starting |")]
)
def test_a_wrong_category_is_found(right, wrong):
    assert account_complaints(page(PAGES[0]).replace(right, wrong, 1))


def example() -> dict[str, Any]:
    """The last event on the page of events."""
    section = dict(SECTION.findall(page("docs/events.md")))["supervisor.exited"]
    (line,) = re.findall(r"^```json\n(.*)\n```$", section, re.MULTILINE)
    event: dict[str, Any] = json.loads(line)
    return event


@pytest.mark.parametrize("name", [*PAGES, *READMES])
def test_the_sentence_that_is_shown_is_that_of_the_account_of_the_example(name):
    event = example()
    account = event["account"]
    percent = round(100 * account["training"] / sum(account.values()), 1)
    assert percent == event["percent_training"]
    kept = KeptAccount(account, percent, generations=event["generations"], hangs=1)
    assert account_sentence(kept) == event["trained"]
    assert f"```text\n{event['trained']}\n```\n" in page(name)


# The figures -----------------------------------------------------------------------------------

FIGURES = {
    PAGES[0]: (
        *("five times the longest pause", f"at least {pace.LEAST_LIMIT:g} s"),
        *(f"after {pace.PAUSES} pauses", f"at least {FIRST_STEP_SECONDS / 60:g} min"),
        *(f"takes {100 * (pace.SLOW_RANK - 1):g} % more", "at fewer than 100 a second"),
        *("a quarter longer", f"the {pace.BEFORE} before", f"the first {LONGEST // 1024} KiB"),
        f"more than {1000 * LIMIT_SECONDS:g} ms",
    ),
    PAGES[1]: (
        *("最长间隔的五倍", f"不少于 {pace.LEAST_LIMIT:g} s"),
        *(f"有 {pace.PAUSES} 个间隔", f"时限不少于 {FIRST_STEP_SECONDS / 60:g} min"),
        *(f"多用 {100 * (pace.SLOW_RANK - 1):g} % 时间", "每秒少于 100 个"),
        *("四分之一", f"此前 {pace.BEFORE} 个", f"前 {LONGEST // 1024} KiB"),
        f"超过 {1000 * LIMIT_SECONDS:g} ms",
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_figures_of_the_page_are_those_of_the_program(name):
    assert [figure for figure in FIGURES[name] if figure not in page(name)] == []
    assert (pace.STALL, pace.SLOW) == (5.0, 1.25), "five times, a quarter"
    assert 10**FAST_DIGITS == 100


# What other pages tell -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["docs/control.md", "docs/control.zh.md"])
def test_the_keys_of_progress_are_those_of_the_state_file(name):
    told = [row[0] for row in rows(chapter(page(name), "progress"))]
    assert differences([field.name for field in fields(ProgressStatus)], told, "key") == []
