"""The configurations of shippers that cannot be run here find what a supervisor writes.

That is all that is shown of them; tests/test_shippers.py runs the others.
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

CONF = Path(__file__).parents[1] / "conf"
WRITTEN = ("fluent-bit.yml", "vector.yml", "filebeat.yml", "otel-collector.yml")
LOGS = PurePath("/var/log/ascend")
PLACE = Place("modelarts-job-7", "pod", LOGS, LOGS, LOGS / "table", LOGS / "state", LOGS)
EVENTS, LOG = str(PLACE.events), str(log_path(PLACE, 12, 4))
PROGRAMS = ("torchrun", "mpirun", "sshd", "msrun", "scheduler", "ps")
OTHERS = (
    *(str(launcher_log_path(PLACE, name, 3)) for name in PROGRAMS),
    str(LOGS / "modelarts-job-7-proc-command-pod-0.txt"),
)
PATTERN = re.compile(r"/var/log/ascend/[^\s,\]'\"]*\*[^\s,\]'\"]*")
NAMED = re.compile(r"\(\?P?<(\w+)>")


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


def parsed(name: str) -> list[str]:
    return list(words(yaml.safe_load((CONF / name).read_text(encoding="utf-8"))))


@pytest.mark.parametrize("name", WRITTEN)
def test_its_paths_are_those_of_the_events_and_of_the_rank_logs(name):
    patterns = [one for text in parsed(name) for one in PATTERN.findall(text)]
    for path in (EVENTS, LOG, *OTHERS):
        assert sum(fnmatch(path, pattern) for pattern in patterns) == 1
    assert not any(fnmatch(f"{path}.1", one) for path in (EVENTS, LOG) for one in patterns)


@pytest.mark.parametrize("name", ["fluent-bit.yml", "vector.yml", "otel-collector.yml"])
def test_it_reads_the_program_from_the_name_of_a_log_of_no_rank(name):
    (text,) = (text for text in parsed(name) if "-proc-" in text and "job_id" in text)
    found = NAMED.sub(r"(?P<\1>", re.sub(r"(?s).*r'(.*?)'.*", r"\1", text))
    for program, log in zip((*PROGRAMS, "command"), OTHERS, strict=True):
        match = re.search(found, log)
        assert match is not None
        assert (match["job_id"], match["rank"]) == ("modelarts-job-7", None)
        assert match["program"] == program


@pytest.mark.parametrize("name", WRITTEN)
def test_it_reads_job_and_rank_from_the_name_of_a_log(name):
    (text, *_) = (text for text in parsed(name) if "-proc-" in text and "job_id" in text)
    if "%{" in text:  # Filebeat's own form
        found = re.sub(r"%\{\??(\w+)(\|integer)?\}", r"(?P<\1>.+?)", text) + "$"
    else:
        found = NAMED.sub(r"(?P<\1>", re.sub(r"(?s).*r'(.*)'.*", r"\1", text))
    match = re.search(found, LOG)
    assert match is not None
    assert (match["job_id"], match["rank"]) == ("modelarts-job-7", "12")


@pytest.mark.parametrize("name", WRITTEN)
def test_the_page_says_that_it_was_only_written(name):
    (row,) = (row for row in page("docs/shippers.md").splitlines() if f"conf/{name}" in row)
    assert row.endswith("| no, only written |")
    assert "not run" in " ".join((CONF / name).read_text(encoding="utf-8").splitlines()[:9])
