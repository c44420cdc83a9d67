"""docs/warm.md names what makes a rank start cold as the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_supervisor.job_files import CANN_LOGS
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.workers.standby import (
    ALSO_AT_EXEC,
    ANSWER_SECONDS,
    AT_EXEC,
    SILENT,
    warm_program,
)
from ascend_supervisor.workers.standbys import LOOK_SECONDS, SHORT

PAGES = [Path(__file__).parents[3] / "docs" / name for name in ("warm.md", "warm.zh.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_page_names_the_variables_that_are_read_once(page):
    text = page.read_text()
    for name in {*AT_EXEC, *ALSO_AT_EXEC, CANN_LOGS}:
        assert f"{name}\\*" in text if name.endswith("_") or name == "PYTHON" else name in text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_page_has_the_sentences(page):
    text = page.read_text()
    for command in "bash train.sh", "python -m coverage run train.py":
        spec = ProcessSpec(tuple(command.split()), Path("/"), Path("/log"), rank=0)
        assert f": {warm_program(spec)}`" in text
    for why in SHORT, SILENT:
        assert f"...: {why}`" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_page_says_how_long_a_standby_may_leave_questions_open(page):
    numbers = re.findall(r"\d+", page.read_text().partition("it does not answer`")[2])
    assert numbers[:2] == [f"{LOOK_SECONDS:g}", f"{ANSWER_SECONDS:g}"]
