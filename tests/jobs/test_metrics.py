"""Figures of real jobs, and what becomes of them where node_exporter serves them."""

from __future__ import annotations

import json
import shutil
import signal
import stat
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ascend_supervisor.metrics.figures import PREFIX
from ascend_supervisor.metrics.metrics_file import CHOSEN
from tests.metrics.test_figures import NAMES, samples_of
from tests.ports import free_port
from tests.running import python, wait_until

TRAINS = """
import os, sys, time
for step in range(1, 6):
    os.write(1, b" iteration %8d/     900 | consumed samples: 16 | lm loss: 2.3E+00 |\\n" % step)
    time.sleep(0.05)
sys.exit(os.environ["LIFE"] == "0")
"""
AGAIN = ("--standalone", "2", "--restarts", "2", "--restart-delay", "0.01")
COMMAND = ("--rank-env", "LIFE={generation}", *python(TRAINS))


def test_the_file_tells_of_the_whole_job_after_its_end(supervised, tmp_path):
    path = tmp_path / "for" / "everybody" / "a.prom"
    job = supervised(*AGAIN, "--metrics-file", str(path), *COMMAND)
    assert job.end() == 0
    found = samples_of(path.read_bytes())
    expected = {
        ("phase", "ended"): 1,
        ("exit_code", ""): 0,
        ("generation", ""): 1,
        ("restarts_total", "crash"): 1,
        ("restarts_allowed", ""): 2,
        ("restarts_left", ""): 1,
        ("ranks", "ended"): 2,
        ("best_step", ""): 5,
        ("steps", ""): 900,
        ("log_lost_bytes_total", "1"): 0,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found["log_bytes_total", "1"] == 5 * len(job.said(1, generation=1)[0]) + 5
    assert found["time_spent_seconds", "trained_again"] > 0
    assert [one.name for one in path.parent.iterdir()] == ["a.prom"]
    made = (path.parent.parent, path.parent, path)
    assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o755, 0o755, 0o644]


STOPS_LATE = """
import os, signal, sys, time
def late(*_):
    time.sleep(0.6)
    os._exit(0)
signal.signal(signal.SIGTERM, late)
if os.environ["LIFE"] != "0":
    sys.exit()
if os.environ["RANK"] == "0":
    open("READY", "w")
    while True: time.sleep(0.1)
while not os.path.exists("READY"): time.sleep(0.005)
sys.exit(3)
"""


def test_the_end_of_a_generation_is_told_and_counted_by_its_parts(supervised, tmp_path):
    path = tmp_path / "a.prom"
    source = STOPS_LATE.replace("READY", str(tmp_path / "ready"))
    words = ("--drain", "0.5", "--metrics-file", str(path), "--rank-env", "LIFE={generation}")
    job = supervised(*AGAIN, *words, *python(source))
    assert job.end() == 0
    ends = job.all("generation.ended")
    assert [one["outcome"] for one in ends] == ["crashed", "completed"]
    assert (ends[0]["drain_seconds"] >= 0.5, ends[0]["grace_seconds"] >= 0.6) == (True, True)
    assert ends[1]["grace_seconds"] == 0
    found = samples_of(path.read_bytes())
    for part in ("drain", "grace"):
        total = sum(one[f"{part}_seconds"] for one in ends)
        assert found["ending_seconds_total", part] == pytest.approx(total)
    assert found["ending_seconds_total", "release"] > 0


def test_a_file_that_cannot_be_written_is_told_and_stops_nothing(supervised, tmp_path):
    path = tmp_path / "a.prom"
    path.mkdir()
    job = supervised(*AGAIN, "--metrics-file", str(path), *COMMAND)
    assert job.end() == 0
    told = [event["msg"] for event in job.all("diagnostic", source="the metrics file")]
    assert told == [f"the metrics file: {path} cannot be written: it is a directory"]


@pytest.mark.parametrize(
    ("option", "name", "source"),
    [
        ("--metrics-file", "a.prom", "the metrics file"),
        ("--metrics-npu-exporter", "figures", "the files for npu-exporter"),
    ],
)
def test_two_jobs_with_the_same_files_are_told(supervised, tmp_path, option, name, source):
    where = ("--standalone", "1", option, str(tmp_path / name))
    waits = python("import time; print('up', flush=True); time.sleep(600)")
    first = supervised(*where, *waits, environ={"MA_VJ_NAME": "one"}, root=tmp_path / "1")
    first.wait_for("output", msg="up")
    figures = {"a.prom": tmp_path / name, "figures": tmp_path / name / f"{PREFIX}phase.json"}
    wait_until(figures[name].exists)
    second = supervised(*where, *python(""), environ={"MA_VJ_NAME": "two"}, root=tmp_path / "2")
    assert second.end() == 0
    first.send(signal.SIGTERM)
    assert first.end() == 143
    assert first.all("diagnostic", source=source) == []
    (told,) = second.all("diagnostic", source=source)
    assert 'another supervisor (job_id="one",pod_name=' in told["msg"]


def told_to_npu_exporter(directory: Path, figure: str) -> dict[str, float]:
    """The values by the label that is the figure's own."""
    metric = json.loads((directory / f"{PREFIX}{figure}.json").read_bytes())
    return {
        "".join(value for name, value in one["label"].items() if name not in NAMES): one["value"]
        for one in metric["data_list"]
    }


def test_the_files_for_npu_exporter_tell_of_the_whole_job_after_its_end(supervised, tmp_path):
    directory = tmp_path / "figures"
    directory.mkdir()
    (directory / f".{PREFIX}step.json.abcdefgh").write_text("of a start that was killed")
    began = time.time()
    job = supervised(*AGAIN, "--metrics-npu-exporter", str(directory), *COMMAND)
    assert job.end() == 0
    assert told_to_npu_exporter(directory, "phase")["ended"] == 1
    assert told_to_npu_exporter(directory, "step") == {"": 5}
    assert told_to_npu_exporter(directory, "generation") == {"": 1}
    assert told_to_npu_exporter(directory, "restarts_total")["crash"] == 1
    assert told_to_npu_exporter(directory, "time_spent_seconds")["trained_again"] > 0
    files = sorted(directory.iterdir())
    assert [one.name for one in files] == sorted(f"{PREFIX}{name}.json" for name in CHOSEN)
    assert {one.lstat().st_mode for one in files} == {stat.S_IFREG | 0o644}
    assert job.stderr == ""  # the last write tells there why it fails
    times = {one.name: json.loads(one.read_bytes())["timestamp"] for one in files}
    assert len({*times.values()}) == 1, times
    assert began < times[files[0].name] / 1e6 < time.time()


def test_files_for_npu_exporter_that_cannot_be_written_are_told_once(supervised, tmp_path):
    (tmp_path / f"{PREFIX}step.json").mkdir()
    job = supervised(*AGAIN, "--metrics-npu-exporter", str(tmp_path), *COMMAND)
    assert job.end() == 0
    (told,) = job.all("diagnostic", source="the files for npu-exporter")
    assert told["msg"].endswith(f"{tmp_path} cannot be written: it is a directory")


def test_a_name_that_node_exporter_does_not_read_is_refused(supervised, tmp_path):
    job = supervised(*AGAIN, "--metrics-file", str(tmp_path / "a.txt"), *COMMAND)
    assert job.end() == 64
    assert "expected a path that ends in .prom" in job.all("supervisor.exited")[0]["reason"]


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The URL at which a real node_exporter serves the files in ``directory``, and nothing else."""
    program = shutil.which("prometheus-node-exporter")
    if program is None:
        pytest.skip("node_exporter is not installed here (Debian: prometheus-node-exporter)")
    address = f"127.0.0.1:{free_port()}"
    words = (
        *("--collector.disable-defaults", "--collector.textfile"),
        *(f"--collector.textfile.directory={directory}", f"--web.listen-address={address}"),
    )
    with subprocess.Popen([program, *words], stderr=subprocess.DEVNULL) as exporter:
        try:
            yield f"http://{address}/metrics"
        finally:
            exporter.terminate()


def read(url: str) -> bytes:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
        text: bytes = answer.read()
        return text
    return b""


def test_node_exporter_hands_on_the_figures_of_two_jobs_in_one_directory(supervised, tmp_path):
    ended: list[int] = []
    for name in ('ma-job-a"b\\c', "ma-job-ü"):
        path = tmp_path / "figures" / f"{len(ended)}.prom"
        variables = {"MA_VJ_NAME": name}
        root = tmp_path / str(len(ended))
        job = supervised(
            *AGAIN, "--metrics-file", str(path), *COMMAND, environ=variables, root=root
        )
        ended.append(job.end())
    assert ended == [0, 0]
    with served(tmp_path / "figures") as url:
        wait_until(lambda: read(url))
        lines = read(url).decode().splitlines()
    assert "node_textfile_scrape_error 0" in lines
    steps = [line for line in lines if line.startswith("ascend_supervisor_best_step{")]
    assert sorted(line.partition("job_id=")[2].partition(",")[0] for line in steps) == [
        r'"modelarts-job-a\"b\\c"',
        '"modelarts-job-ü"',
    ]
