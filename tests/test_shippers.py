"""Log shippers lose nothing, change nothing and keep the order, with the configurations of conf/.

docs/shippers.md says what else was tried, and what was not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from ascend_supervisor.output.log_file import LogFile, Rotation
from tests.running import Running
from tests.shippers import SHIPPERS, Loghost, Service

EVENTS = 10_000
HOSTILE = """
import sys
parts = [b'{"a": "b\\\\n"}', b"it's 'quoted' %s $msg ${MESSAGE} $(id) @x@",
         b"\\t\\x01\\x1b[31mred\\x7f",
         "\\u2028 \\u2029 \\u0085 \\u6607\\u817e \\U0001f600".encode(), b"\\\\", b"",
         b"  two ends  ",
         b"\\r 10%\\r 20%", b"<13>Oct 11 22:14:15 su: not a header", b"\\xff\\xfe \\xe6\\x98"]
for number in range(10_000):
    line = b"x" * 100_000 if number % 2000 == 1000 else parts[number % len(parts)]
    sys.stdout.buffer.write(b"%d " % number + line + b"\\n")
"""


class Material(Struct, frozen=True):
    """What a supervisor has written: lines with their ends."""

    events: tuple[bytes, ...]
    rank_lines: tuple[bytes, ...]
    log_name: str


@pytest.fixture(scope="module")
def material(tmp_path_factory) -> Material:
    root = tmp_path_factory.mktemp("job")
    with (root / "events").open("wb") as file:
        running = Running(
            root,
            *("--standalone", "1", "--console", "json"),
            *("--", sys.executable, "-c", HOSTILE),
            stdout=file.fileno(),
        )
        try:
            assert running.end() == 0
        finally:
            running.kill()
    log = running.log(0)
    assert len(lines(root / "events")) >= EVENTS
    return Material(lines(root / "events"), lines(log), log.name)


def lines(path: Path) -> tuple[bytes, ...]:
    return tuple(line + b"\n" for line in path.read_bytes().removesuffix(b"\n").split(b"\n"))


@pytest.fixture(params=SHIPPERS, ids=lambda shipper: shipper.name)
def shipping(request, tmp_path) -> Iterator[tuple[Service, Loghost]]:
    loghost = Loghost()
    service = Service(request.param, tmp_path, loghost)
    yield service, loghost
    service.kill()
    loghost.close()


def test_all_of_it_arrives_in_order_over_a_rotation_and_a_pause(material, shipping):
    service, loghost = shipping
    first, second, third = (len(material.events) * part // 4 for part in (1, 2, 3))
    path = service.log_dir / "train.events.jsonl"
    path.write_bytes(b"".join(material.events[:first]))
    service.start()
    loghost.wait_for(1, 0)
    with path.open("ab") as file:
        file.write(b"".join(material.events[first:second]))
    loghost.wait_for(second, 0)
    path.rename(path.with_name(f"{path.name}.1"))
    with path.open("ab") as file:
        file.write(b"".join(material.events[second:third]))
        file.flush()
        loghost.wait_for(second + 1, 0)
        service.stop()
        file.write(b"".join(material.events[third:]))
    service.start()
    loghost.wait_for(len(material.events), 0)
    service.stop()
    assert tuple(loghost.events) == material.events
    assert [json.loads(line)["seq"] for line in loghost.events] == list(range(len(loghost.events)))


def test_lines_of_ranks_arrive_with_job_and_rank(material, shipping):
    service, loghost = shipping
    first, second, third = (len(material.rank_lines) * part // 4 for part in (1, 2, 3))
    size = sum(map(len, material.rank_lines[:second]))
    log = LogFile(service.log_dir / material.log_name, Rotation(size, 3), lambda: b"new file\n")
    log.open()
    log.write(b"".join(material.rank_lines[:first]))
    service.start()
    loghost.wait_for(0, 1)
    log.write(b"".join(material.rank_lines[first:second]))
    loghost.wait_for(0, second + 1)  # a shipper that is behind at a rotation may lose a line
    log.write(b"".join(material.rank_lines[second:third]))
    loghost.wait_for(0, second + 2)
    service.stop()
    log.write(b"".join(material.rank_lines[third:]))
    log.close()
    service.start()
    expected = [b"new file\n", *material.rank_lines]
    expected.insert(second + 1, b"new file\n")
    loghost.wait_for(0, len(expected))
    service.stop()
    assert {(line["job_id"], line["rank"]) for line in loghost.rank_lines} == {
        ("modelarts-job-test", 0)
    }
    shown = [service.shipper.shows(line) for line in expected]
    assert [line["line"] for line in loghost.rank_lines] == shown


def test_lines_of_what_is_no_rank_arrive_with_its_program(shipping):
    service, loghost = shipping
    names = {"torchrun": "torchrun-node-0", "mpirun": "mpirun-node-1", "command": "command-pod-0"}
    for program, name in names.items():
        (service.log_dir / f"my-job-proc-{name}.txt").write_text(f"a line of {program}\n")
    service.start()
    loghost.wait_for(0, len(names))
    service.stop()
    assert sorted(loghost.rank_lines, key=str) == sorted(
        (
            {"job_id": "my-job", "program": program, "line": f"a line of {program}"}
            for program in names
        ),
        key=str,
    )


def test_the_event_log_of_a_job_arrives_as_it_was_written(shipping, tmp_path):
    service, loghost = shipping
    running = Running(tmp_path, "--standalone", "1", "--log-dir", "log", "--", "true")
    try:
        assert running.end() == 0
    finally:
        running.kill()
    (path,) = service.log_dir.glob("*.events.jsonl")
    service.start()
    loghost.wait_for(len(lines(path)), 0)
    service.stop()
    assert tuple(loghost.events) == lines(path)
