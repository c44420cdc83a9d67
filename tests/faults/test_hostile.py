"""Tables and configuration files that are made to hurt: refused in a sentence, soon, and heard."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.rank_tables import A5, LAB, ONE_CARD, SUPER_POD, TEMPLATE_1, document
from tests.running import DEADLINE_SECONDS, Running, python

MIB = 1 << 20
MOST_BYTES = 64 * MIB
MOST_MEMORY = 1600 * MIB
"""Of the address space, with 8 MiB of stack and 64 MiB of malloc's reserve for each thread."""
AT_ONCE = 4
OK, USAGE, REFUSED, NOT_READY = 0, 64, 65, 75

# What is in a table is the same to every way in which a supervisor runs.
pytestmark = pytest.mark.parametrize("way", ["ordinary"], indirect=True)

# A literal of JSON in the place of a number, and what becomes of the table.
DEEP = 100_000
LITERALS: dict[str, tuple[str, int, str]] = {
    "lists": ("[" * DEEP + "]" * DEEP, NOT_READY, "not valid JSON yet: "),
    "objects": ('{"a":' * DEEP + "1" + "}" * DEEP, NOT_READY, "not valid JSON yet: "),
    "lists that parse": ("[" * 900 + "]" * 900, REFUSED, "$"),
    "a million digits": ("9" * 10**6, NOT_READY, "not valid JSON yet: "),
    "a million digits of text": (f'"{"9" * 10**6}"', REFUSED, "expected an integer"),
    "1e400": ("1e400", NOT_READY, "not valid JSON yet: "),
    "NaN": ("NaN", NOT_READY, "not valid JSON yet: "),
    "-Infinity": ("-Infinity", NOT_READY, "not valid JSON yet: "),
    "-0.0": ("-0.0", REFUSED, "expected an integer"),
    "-1": ("-1", REFUSED, "expected an integer"),
    "true": ("true", REFUSED, "expected an integer"),
    "10^30": (f"1{'0' * 30}", REFUSED, "expected an integer"),
    "10^30 of text": (f'"1{"0" * 30}"', REFUSED, "expected an integer"),
    "a surrogate": (r'"\ud800"', NOT_READY, "not valid JSON yet: "),
    "a control sequence": (r'"\u001b[2J"', REFUSED, r"found '\x1b[2J'"),
    "a key twice": ("0, {key}: 0", REFUSED, "expected each key once, found {name}"),
}
EVERYWHERE = ("objects", "true", "10^30", "a control sequence", "a key twice")
NUMBERS = {
    TEMPLATE_1: "server_list 0 device 0 rank_id",
    ONE_CARD: "group_list 0 instance_list 0 devices 0 device_id",
    SUPER_POD: "server_list 0 device 0 device_id",
    A5: "rank_list 0 rank_id",
    LAB: "group_list 0 instance_list 0 rank_id",
}


def with_literal(name: str, leaf: str, literal: str) -> bytes:
    """The table of this name in which a leaf is any text at all, JSON or not."""
    top = document(name)
    *way, last = [int(step) if step.isdigit() else step for step in leaf.split()]
    at = top
    for step in way:
        at = at[step]
    at[last] = "@@"
    return json.dumps(top).replace('"@@"', literal).encode()


def test_hostile_numbers_are_refused_in_every_format(way, tmp_path):
    def told(case: tuple[str, str]) -> str:
        table, kind = case
        literal, code, sentence = LITERALS[kind]
        key = NUMBERS[table].split()[-1]
        literal, sentence = literal.replace("{key}", f'"{key}"'), sentence.format(name=f"'{key}'")
        path = tmp_path / f"{table} {kind}.json"
        path.write_bytes(with_literal(table, NUMBERS[table], literal))
        ended = ctl("check-table", str(path))
        return complaint(f"{table}, {kind}", ended, code, sentence, str(path))

    cases = [(table, kind) for table in NUMBERS for kind in EVERYWHERE]
    check(told, [*cases, *((TEMPLATE_1, kind) for kind in LITERALS if kind not in EVERYWHERE)])


Ended = subprocess.CompletedProcess[bytes]


def ctl(*words: str) -> Ended:
    return ended("ascend_supervisor.ctl", *words)


def ended(module: str, *words: str, cwd: Path | None = None) -> Ended:
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_SECONDS,
        env=environ,
        cwd=cwd,
    )


def complaint(what: str, ended: Ended, code: int, sentence: str, where: str) -> str:
    """What is wrong with an end that is to be a refusal in one sentence; empty if nothing is."""
    lines = ended.stderr.decode().splitlines()
    right = (
        ended.returncode == code
        and len(lines) == 1
        and sentence in lines[0]
        and where in lines[0]
        and lines[0].isprintable()
        and len(lines[0]) < 600
    )
    return "" if right else f"{what}: {ended.returncode}, {ended.stderr[:400]!r}"


def check(told: Callable[[Any], str], cases: Iterable[Any]) -> None:
    """``told`` of every case; some at once, as most of it is the start of an interpreter."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        complaints = [found for found in threads.map(told, cases) if found]
    assert not complaints, "\n".join(complaints)


GOOD = json.dumps(document(ONE_CARD)).encode()
POD = b"jobxxxxxxxx"
DOCUMENTS: dict[str, tuple[bytes, int, str]] = {
    "UTF-16": (GOOD.decode().encode("utf-16"), NOT_READY, "not valid JSON yet: "),
    "UTF-16 without a mark": (GOOD.decode().encode("utf-16-le"), NOT_READY, "not valid JSON yet: "),
    "a mark of UTF-8": (b"\xef\xbb\xbf" + GOOD, OK, ""),
    "not UTF-8": (GOOD.replace(POD, b"\xff\xfe"), NOT_READY, "not valid JSON yet: "),
    "NUL": (GOOD.replace(POD, b"\0"), NOT_READY, "not valid JSON yet: "),
    "NUL behind it": (GOOD + b"\0", NOT_READY, "not valid JSON yet: "),
    "a raw control sequence": (GOOD.replace(POD, b"\x1b[2J"), NOT_READY, "not valid JSON yet: "),
    "a surrogate as key": (GOOD[:-1] + rb', "\ud800": 1}', NOT_READY, "not valid JSON yet: "),
    "a status of a megabyte": (
        b'{"status": "%b"}' % (b"x" * MIB),
        NOT_READY,
        f"status is '{'x' * 40}'...",
    ),
    "a status that clears the screen": (
        rb'{"status": "\u001b[2J"}',
        NOT_READY,
        r"status is '\x1b[2J'",
    ),
    "a status twice": (
        b'{"status": "initializing", ' + GOOD[1:],
        REFUSED,
        "$: expected each key once, found 'status'",
    ),
    "a key twice far from what we read": (
        GOOD[:-1] + b', "extra": [{"a": {"name": 1, "name": 1}}]}',
        REFUSED,
        "$.extra[0].a: expected each key once, found 'name'",
    ),
    "a key of a megabyte": (GOOD[:-1] + b', "%b": 1}' % (b"k" * MIB), OK, ""),
    "a key of a megabyte twice": (
        GOOD[:-1] + b', "%b": 1, "%b": 1}' % (b"k" * MIB, b"k" * MIB),
        REFUSED,
        f"found '{'k' * 40}'...",
    ),
}


def test_hostile_documents_start_no_rank(bad_day, way, place):
    def told(case: str) -> str:
        content, code, sentence = DOCUMENTS[case]
        path = place / f"{case}.json"
        path.write_bytes(content)
        words = ("--rank-table", str(path), *unwaited(code), "--", "true")
        job = bad_day(*words, home=f"home of {path.stem}")
        return refusal(case, job, code, sentence, str(path))

    check(told, DOCUMENTS)


def unwaited(code: int) -> tuple[str, ...]:
    """The option with which what is no table yet is the end at once."""
    return ("--check",) if code == NOT_READY else ()


def refusal(what: str, job: Running, expected: int, sentence: str, where: str) -> str:
    """What is wrong with how this job has ended; empty if nothing is."""
    code = job.end()
    faults = [event["msg"] for event in job.events if event["event"] == "supervisor.defect"]
    faults += [event["msg"] for event in job.events if not event["msg"].isprintable()]
    if code != OK:
        said = subprocess.CompletedProcess[bytes]([], code, b"", job.stderr.encode())
        faults += [complaint("stderr", said, expected, sentence, where)]
        faults += [event["msg"] for event in job.all("process.started")]
    elif expected != OK:
        faults += ["it was taken for a table"]
    return "; ".join([what, *filter(None, faults)]) if any(faults) else ""


def filled(head: bytes, unit: bytes, tail: bytes, times: int | None = None) -> bytes:
    """A list between ``head`` and ``tail`` of so many times ``unit``, else as large as may be."""
    if times is None:
        times = (MOST_BYTES - len(head) - len(tail)) // (len(unit) + 1)
    return head + (unit + b",") * (times - 1) + unit + tail


TABLE = b'{"status": "completed", "server_count": "1", "server_list": ['
DEVICE = b'{"device_id": "0", "rank_id": "0"}'
EIGHT = b'{"server_id": "s", "device": [%b]}' % b",".join([DEVICE] * 8)
LARGE: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "objects": (lambda: filled(b"[", b"{}", b"]"), REFUSED, "values"),
    "lists": (lambda: filled(b"[", b"[]", b"]"), REFUSED, "values"),
    "numbers": (lambda: filled(b"[", b"1", b"]"), REFUSED, "values"),
    "super pods": (
        lambda: filled(TABLE + b'], "super_pod_list": [', b"null", b"]}"),
        REFUSED,
        "values",
    ),
    "a million devices on one server": (
        lambda: filled(TABLE + b'{"server_id": "s", "device": [', DEVICE, b"]}]}", 10**6),
        REFUSED,
        "$.server_list[0].device",
    ),
    "a million devices": (lambda: filled(TABLE, EIGHT, b"]}", 10**6 // 8), REFUSED, "server_count"),
    "a million servers": (
        lambda: filled(TABLE, b'{"server_id": "s", "device": []}', b"]}", 10**6),
        REFUSED,
        "$",
    ),
    "one string": (
        lambda: b'{"status": "%b"}' % (b"x" * (MOST_BYTES - 14)),
        NOT_READY,
        "status is 'xxx",
    ),
    "one number": (
        lambda: b'{"status": %b}' % (b"1" * (MOST_BYTES - 12)),
        NOT_READY,
        "not valid JSON yet: ",
    ),
    "spaces": (lambda: b" " * MOST_BYTES, NOT_READY, "the file is empty"),
    "a byte too many": (
        lambda: GOOD + b" " * (MOST_BYTES + 1 - len(GOOD)),
        REFUSED,
        "at most 67108864 bytes, found 67108865",
    ),
}


def test_large_documents_take_neither_time_nor_memory(bad_day, way, place):
    def told(case: str) -> str:
        content, code, sentence = LARGE[case]
        path = place / f"{case}.json"
        path.write_bytes(content())
        before = ("prlimit", f"--as={MOST_MEMORY}")
        options = ("--rank-table", str(path), *unwaited(code))
        job = bad_day(*options, "--", "true", before=before, home=f"home of {case}", deadline=60)
        found = refusal(case, job, code, sentence, str(path))
        path.unlink()
        return found

    check(told, LARGE)


def test_a_signal_is_heard_while_a_large_table_is_read(bad_day, way, place):
    """The rest of it is not read: that would be most of the CPU time of a start that reads all."""
    pods = (
        f'{{"devices":[{{"device_id":"0","device_ip":"10.{pod >> 16}.{pod >> 8 & 255}.{pod & 255}"'
        f'}}],"pod_name":"p-{pod}",'
        f'"server_id":"s{pod}"}}'
        for pod in range(100_000)
    )
    head = (
        '{"status":"completed","group_count":"1","group_list":[{"device_count":"100000",'
        '"group_name":"g","instance_count":"100000","instance_list":['
    )
    path = place / "table.json"
    path.write_text(f"{head}{','.join(pods)}]}}]}}")
    words = ("--rank-table", str(path), "--node-rank", "100000", "--", "true")
    before = cpu_seconds_of_children()
    assert bad_day(*words, home="whole", deadline=200).end() == REFUSED
    whole, before = cpu_seconds_of_children() - before, cpu_seconds_of_children()
    job = bad_day(*words)
    job.wait_for("supervisor.started")
    usual = job.memory
    end = time.monotonic() + DEADLINE_SECONDS
    while job.memory < usual + 2 * path.stat().st_size:  # it has read it, and parses
        assert time.monotonic() < end
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert cpu_seconds_of_children() - before < whole / 2
    assert not job.all("supervisor.defect")


def cpu_seconds_of_children() -> float:
    """Of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Names may be any text; it must neither reach a terminal as it is nor stop a rank from starting.
NAMES = {
    TEMPLATE_1: ["server_list 0 server_id", "server_list 0 host_ip", "server_list 0 container_ip"],
    ONE_CARD: ["group_list 0 instance_list 0 pod_name", "group_list 0 instance_list 0 server_id"],
    SUPER_POD: ["server_list 0 server_id", "server_list 0 device 0 device_ip"],
    LAB: ["group_list 0 instance_list 0 server_id"],
}
SPOILT = {"terminal": r'"\u001b]0;owned\u0007\u009b2J\u202e\n-0"', "NUL": r'"\u0000-0"'}


def test_a_name_in_a_table_reaches_neither_terminal_nor_rank_as_it_is(bad_day, way, place):
    def told(case: tuple[str, str, str]) -> str:
        table, leaf, kind = case
        path = place / f"{table} {leaf} {kind}.json"
        path.write_bytes(with_literal(table, leaf, SPOILT[kind]))
        options = ("--rank-table", str(path), "--node-rank", "0", "--console", "text")
        places = ("--log-dir", f"{path}.logs", "--work-dir", f"{path}.work")
        ran = ended("ascend_supervisor", *options, *places, "--", "true", cwd=place)
        looked_at = ctl("check-table", str(path))
        what = ran.stdout + ran.stderr + looked_at.stdout + looked_at.stderr
        text = what.decode(errors="replace").replace("\n", "")
        right = ran.returncode in {OK, REFUSED} and text.isprintable()
        return "" if right else f"{table}, {leaf}, {kind}: {ran.returncode}, {what!r}"

    names = [(table, leaf) for table, leaves in NAMES.items() for leaf in leaves]
    cases = [(*name, "terminal") for name in names]
    check(told, [*cases, *((*name, "NUL") for name in names if name[1].endswith("server_id"))])


@pytest.mark.parametrize(
    ("document", "code"),
    [(GOOD[:-1] + b', "status": "completed"}', REFUSED), (GOOD[:-1], NOT_READY)],
)
def test_what_cannot_be_converted_leaves_no_file(way, tmp_path, document, code):
    path, made = tmp_path / "table.json", tmp_path / "made" / "table.json"
    path.write_bytes(document)
    ended = ctl("convert", str(path), "-o", str(made))
    assert not complaint("convert", ended, code, str(path), str(path))
    assert not made.parent.exists()


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [("/", USAGE, "is a directory"), ("/dev/zero", REFUSED, "at most 67108864 bytes")],
)
def test_what_is_no_table_at_all_is_not_read_for_ever(way, name, code, sentence):
    assert not complaint(name, ctl("check-table", name), code, sentence, name)


SETTINGS: dict[str, tuple[bytes, str]] = {
    "lists": (b"restarts = " + b"[" * 10_000 + b"]" * 10_000, "not TOML"),
    "tables": (b"restarts = " + b"{a=" * 10_000 + b"1" + b"}" * 10_000, "not TOML"),
    "a hundred thousand lists": (b"restarts = " + b"[" * DEEP + b"]" * DEEP, "c.toml"),
    "dots": (b".".join([b"a"] * 900) + b" = 1", "a is not known"),
    "many digits": (b"restarts = " + b"9" * 60_000, "c.toml"),
    "many hexadecimal digits": (b"restarts = 0x" + b"f" * 60_000, "a very large number"),
    "many elements": (b"restarts = [" + b"1," * 30_000 + b"]", "restarts: expected a whole number"),
    "a million entries": (b"".join(b"restart%d = 1\n" % n for n in range(10**6)), "c.toml"),
    "10^30": (b"restarts = 1" + b"0" * 30, "restarts: expected a whole number"),
    "1e400": (b"grace = 1e400", "grace: expected seconds"),
    "nan": (b"grace = nan", "grace: expected seconds"),
    "-inf": (b"grace = -inf", "grace: expected seconds"),
    "true": (b"restarts = true", "restarts: expected a whole number"),
    "a key twice": (b"restarts = 1\nrestarts = 2", "at line 2"),
    "a long key": (b"k" * 60_000 + b" = 1", "is not known"),
    "not UTF-8": (b'log_level = "\xff"', "not UTF-8"),
    "UTF-16": ("restarts = 1".encode("utf-16"), "not UTF-8"),
    "NUL": (b'log_dir = "\0"', "not TOML"),
    "NUL by its name": (rb'log_dir = "\u0000"', "log_dir: expected a path"),
    "a surrogate": (rb'log_level = "\ud800"', "not TOML"),
    "a control sequence": (rb'log_level = "\u001b[2J"', r"found '\x1b[2J'"),
    "a control sequence as key": (rb'"\u001b[2J" = 1', r"'\x1b[2J' is not known"),
}


def test_hostile_settings_are_refused(way, tmp_path):
    def told(case: str) -> str:
        content, sentence = SETTINGS[case]
        path = tmp_path / case / "c.toml"
        path.parent.mkdir()
        path.write_bytes(content)
        options = ("--config", str(path), "--standalone", "1", "--", "true")
        try:
            run = ended("ascend_supervisor", *options, cwd=path.parent)
        except subprocess.TimeoutExpired:
            return f"{case}: not ended within {DEADLINE_SECONDS} s"
        return complaint(case, run, USAGE, sentence, str(path))

    check(told, SETTINGS)


def test_many_faults_are_not_all_told(way, tmp_path):
    path = tmp_path / "c.toml"
    path.write_bytes(b"".join(b"restart%d = 1\n" % number for number in range(3000)))
    run = ended("ascend_supervisor", "--config", str(path), "--", "true", cwd=tmp_path)
    assert run.returncode == USAGE
    assert b"restart0 is not known; did you mean restarts?" in run.stderr
    assert len(run.stderr.splitlines()) < 100


HUGE: Mapping[str, str] = {
    **dict.fromkeys(("rank_table_timeout", "grace", "drain", "release_delay"), "1e300"),
    **dict.fromkeys(("restart_delay", "restart_delay_max", "restart_period"), "1e300"),
    **dict.fromkeys(("restarts", "log_keep"), "999999999"),
    "log_max_size": "99999999999999999",
}


def test_the_largest_numbers_are_as_good_as_others(bad_day, way, place):
    (place / "c.toml").write_text("".join(f"{name} = {HUGE[name]}\n" for name in HUGE))
    logs = place / "modelarts" / "log"
    logs.mkdir(parents=True)
    (logs / "modelarts-job-test-proc-rank-0-device-0.txt").write_text("to be rotated\n")
    job = bad_day("--config", "c.toml", "--standalone", "1", "--", "false")
    job.wait_for("restart.scheduled")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert not [*job.all("supervisor.defect"), *job.all("diagnostic")]


RESTARTS = 15
MAKES_A_PIPE = """
import os, sys, time
os.mkfifo(os.environ["TORCHELASTIC_ERROR_FILE"])
if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) == int(sys.argv[1]):
    print("up", flush=True)
    time.sleep(600)
sys.exit(1)
"""


def test_an_error_file_that_is_a_pipe_keeps_no_thread(bad_day, way):
    """Whoever opens it to read waits for a writer that never comes."""
    budget = ("--restarts", "99", "--restart-delay", "0", "--min-uptime", "0")
    words = python(MAKES_A_PIPE)
    job = bad_day("--standalone", "1", *budget, *words, str(RESTARTS))
    job.wait_for("process.exited")
    threads = job.threads
    job.wait_for("output", msg="up")
    assert job.threads < threads + RESTARTS // 2
    job.send(signal.SIGTERM)
    assert job.end() == 143


def test_settings_that_never_come_are_not_waited_for(way, tmp_path):
    os.mkfifo(tmp_path / "c.toml")
    for name in (str(tmp_path / "c.toml"), "/dev/zero", "/"):
        run = ended("ascend_supervisor", "--config", name, "--", "true", cwd=tmp_path)
        assert not complaint(name, run, USAGE, name, "--config")
