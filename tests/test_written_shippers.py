"""The configuration of a shipper that cannot be run here finds what a supervisor writes.

That is all that is shown of it; tests/test_shippers.py runs the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Any

import pytest
import yaml

from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers.common_parts import launcher_log_path, log_path
from tests.test_docs import page

FILE = Path(__file__).parents[1] / "conf" / "otel-collector.yml"
DOCUMENT = yaml.safe_load(FILE.read_text(encoding="utf-8"))
LOGS = PurePath("/var/log/ascend")
PLACE = Place("modelarts-job-7", "pod", LOGS, LOGS, LOGS / "table", LOGS / "state", LOGS)
EVENTS, LOG = str(PLACE.events), str(log_path(PLACE, 12, 4))
PROGRAMS = ("torchrun", "mpirun", "sshd", "msrun", "scheduler", "ps", "command")
OTHERS = (
    *(str(launcher_log_path(PLACE, name, 3)) for name in PROGRAMS[:-1]),
    str(LOGS / "modelarts-job-7-proc-command-pod-0.txt"),
)
PATTERN = re.compile(r"/var/log/ascend/[^\s,\]'\"]*\*[^\s,\]'\"]*")


def words(value: Any) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        for one in value.values():
            yield from words(one)
    elif isinstance(value, list):
        for one in value:
            yield from words(one)
    elif isinstance(value, str):
        yield value


def test_its_paths_are_those_of_the_events_and_of_the_rank_logs():
    patterns = [one for text in words(DOCUMENT) for one in PATTERN.findall(text)]
    for path in (EVENTS, LOG, *OTHERS):
        assert sum(fnmatch(path, pattern) for pattern in patterns) == 1
    assert not any(fnmatch(f"{path}.1", one) for path in (EVENTS, LOG) for one in patterns)


@pytest.mark.parametrize(
    ("log", "rank", "program"),
    [(LOG, "12", None), *((log, None, name) for name, log in zip(PROGRAMS, OTHERS, strict=True))],
)
def test_it_reads_job_and_rank_or_program_from_the_name_of_a_log(log, rank, program):
    (text,) = (text for text in words(DOCUMENT) if "-proc-" in text and "job_id" in text)
    match = re.search(text, log)
    assert match is not None
    assert (match["job_id"], match["rank"], match["program"]) == ("modelarts-job-7", rank, program)


def test_the_page_says_that_it_was_only_written():
    (row,) = (row for row in page("docs/shippers.md").splitlines() if f"conf/{FILE.name}" in row)
    assert row.endswith("| no, only written |")
    assert "not run" in " ".join(FILE.read_text(encoding="utf-8").splitlines()[:9])
