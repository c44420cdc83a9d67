"""Logs as kubectl, docker, stern and journalctl print them: ``explain`` reads them like the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count, zip_longest

import pytest

from ascend_supervisor.ctl.archived_logs import END_BYTES
from ascend_supervisor.ctl.container_logs import MOST_SOURCES, carrier_of
from tests.ctl.calling import ctl

FULL = """step 1
Traceback (most recent call last):
  File "train.py", line 7, in <module>

    torch.save(model, f)
OSError: [Errno 28] No space left on device: 'ckpt.pt'
"""
CONSOLE = "".join(
    json.dumps(line, separators=(",", ":")) + "\n"
    for line in (
        {"seq": 0, "ts": "", "event": "supervisor.started", "msg": "it will run"},
        {"seq": 1, "ts": "", "event": "generation.started", "msg": "generation 0 starts"},
        *(
            {"seq": 2 + at, "ts": "", "event": "output", "rank": 3, "msg": line}
            for at, line in enumerate(FULL.splitlines())
        ),
    )
)
WELL = "step 1\nstep 2\nstep 3\nstep 4\nstep 5\nstep 6\n"


def stamp(number: int) -> str:
    return f"2026-11-29T05:58:27.{number:06d}123Z"


def journal_time(number: int) -> str:
    return f"2026-11-29T05:58:27.{number:06d}+0800"


FORMS: dict[str, tuple[Callable[[str, int], str], str]] = {
    "kubectl logs --timestamps": (lambda _, at: f"{stamp(at)} ", ""),
    "kubectl logs --prefix": (lambda pod, _: f"[pod/{pod}/train] ", "pod/{pod}/train"),
    "kubectl logs --prefix --timestamps": (
        lambda pod, at: f"[pod/{pod}/train] {stamp(at)} ",
        "pod/{pod}/train",
    ),
    "docker logs -t, east of Greenwich": (
        lambda _, at: f"{stamp(at).replace('Z', '+08:00')} ",
        "",
    ),
    "docker compose logs": (lambda pod, _: f"{pod}-1     | ", "{pod}-1"),
    "docker compose logs -t": (lambda pod, at: f"{pod}-1  | {stamp(at)} ", "{pod}-1"),
    "docker compose logs, container_name": (lambda _, __: "trainer  | ", "trainer"),
    "stern": (lambda pod, _: f"{pod} train ", "{pod} train"),
    "stern -t": (lambda pod, at: f"{pod} train {stamp(at)} ", "{pod} train"),
    "journalctl": (lambda pod, _: f"Nov  9 05:58:27 {pod} train[17]: ", "{pod} train[17]"),
    "journalctl -o short-iso-precise": (
        lambda pod, at: f"{journal_time(at)} {pod} train[17]: ",
        "{pod} train[17]",
    ),
    "journalctl -o short-full": (
        lambda pod, _: f"Sun 2026-11-29 05:58:27 CST {pod} train[17]: ",
        "{pod} train[17]",
    ),
    "/var/log/pods": (lambda _, at: f"{stamp(at)} stderr F ", ""),
}


def carried(form: str, **logs: str) -> str:
    """The logs of these pods, interleaved."""
    head, _ = FORMS[form]
    numbers = count()
    pods = [pod.replace("_", "-") for pod in logs]
    return "".join(
        f"{head(pod, next(numbers))}{line}\n"
        for lines in zip_longest(*(log.splitlines() for log in logs.values()))
        for pod, line in zip(pods, lines, strict=True)
        if line is not None
    )


def explained(tmp_path, text: str) -> Iterator[tuple[str | None, str | None, int | None]]:
    """The source, the id of the cause and the rank of each log in it."""
    path = tmp_path / "a.log"
    path.write_text(text)
    for one in json.loads(ctl("explain", "--json", str(path)).stdout):
        found = one["diagnosis"] or {"id": None, "rank": None}
        yield one["source"], found["id"], found["rank"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("log", "rank"), [(FULL, None), (CONSOLE, 3)], ids=["log", "console"])
def test_what_stands_before_the_lines_hides_no_cause(tmp_path, form, log, rank):
    source = FORMS[form][1].format(pod="job-worker-1") or None
    found = list(explained(tmp_path, carried(form, job_worker_1=log)))
    assert found == [(source, "disk-full", rank)]


@pytest.mark.parametrize("form", [form for form, (_, source) in FORMS.items() if "{" in source])
def test_interleaved_sources_are_told_apart(tmp_path, form):
    text = carried(form, job_worker_0=CONSOLE, job_worker_1=FULL, job_worker_2=WELL)
    name = FORMS[form][1]
    assert list(explained(tmp_path, text)) == [
        (name.format(pod="job-worker-0"), "disk-full", 3),
        (name.format(pod="job-worker-1"), "disk-full", None),
        (name.format(pod="job-worker-2"), None, None),
    ]


def test_the_source_is_shown_and_those_that_tell_nothing_are_counted(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(
        "+ job-worker-0 › train\n+ job-worker-1 › train\n"
        + carried("stern", job_worker_0=WELL, job_worker_1=FULL)
        + "- job-worker-0 › train\n"
    )
    told = ctl("explain", str(path)).stdout.splitlines()
    assert told[0].startswith(f"{path} (job-worker-1 train): the disk or volume ")
    assert told[-1] == "1 other log: no known cause"
    told = ctl("explain", "--language", "zh", str(path)).stdout.splitlines()
    assert told[0].startswith(f"{path}（job-worker-1 train）：所写磁盘")


def test_of_pods_one_after_another_the_end_of_each_counts(tmp_path):
    long = "step 1 of many\n" * (2 * END_BYTES // 15)
    form = "kubectl logs --prefix"
    text = carried(form, job_worker_0=FULL) + carried(form, job_worker_1=long)
    assert list(explained(tmp_path, text)) == [
        ("pod/job-worker-0/train", "disk-full", None),
        ("pod/job-worker-1/train", None, None),
    ]


def test_a_long_line_that_a_node_keeps_in_parts_is_whole_again(tmp_path):
    text = carried("/var/log/pods", a=FULL).replace("F OSErr", f"P OSErr\n{stamp(9)} stderr F ")
    assert list(explained(tmp_path, text)) == [(None, "disk-full", None)]


def test_of_many_sources_the_first_are_kept(tmp_path):
    text = "".join(f"[pod/job-{at}/train] step 1\n" for at in range(MOST_SOURCES + 1))
    assert len(list(explained(tmp_path, text))) == MOST_SOURCES


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        CONSOLE,
        "INFO | step 1\nERROR | failed\nTraceback (most recent call last):\n  File\nOSError: 5\n",
        "loss | 0.5\nlr | 0.1\nacc | 0.9\n",
        "re-entering block 3\nre-entering block 4\nloss 5\nloss 6\n",
        "job-a done\njob-b done\njob-c done\n",
        "2026-11-29 05:58:27 INFO step 1\n2026-11-29 05:58:27 INFO step 2\n",
        "Nov 29 is the day\nof this step\n",
        "one line\n",
        "",
    ],
)
def test_other_logs_are_left_as_they_are(text):
    assert carrier_of(text.encode()) is None
