"""Lines on the console: what log shippers can rely on, and that no character of a rank is lost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from itertools import count, pairwise
from pathlib import Path, PurePath
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.generations import GenerationStarted, ProcessExited
from ascend_supervisor.events.leftovers import OrphansKilled, StopWaiting
from ascend_supervisor.events.output import LogLost, OutputDropped
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import (
    Defect,
    Diagnostic,
    SupervisorExited,
    SupervisorStarted,
)
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.json_lines import JsonLines, Origin
from ascend_supervisor.output.mirror import Lines
from ascend_supervisor.output.terminal import named_label, rank_label
from ascend_supervisor.output.text_lines import RawLines, TextLines, visible
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.reporters.event_log import json_log, text_log
from ascend_supervisor.untrusted_text import coloured, harmless
from tests.terminals import steering

DEADLINE = 20.0
MOST_BYTES = 8 * 1024
ORIGIN = Origin("modelarts-job-7", "pod-0", 4711)
COMMON = ["seq", "ts", "level", "event", "msg", "job_id", "host", "pid"]
MOMENT = datetime(2024, 2, 29, 12, 0, tzinfo=timezone.utc).timestamp()
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
SPEC = ProcessSpec(("python",), PurePath("/w"), PurePath("/l"), rank=3, local_rank=1)

TIME = r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d\d\d (?:UTC |[+-]\d\d:\d\d )?"
LABEL = rank_label(3, 1, in_colour=False)

Log = Callable[[Console, Origin, Any], Report]


@pytest.fixture
def shown(tmp_path: Path) -> Callable[..., bytes]:
    """What a console's reader gets of events."""

    def console_of(log: Log, *events: Event, level: str = "info", origin: Origin = ORIGIN) -> bytes:
        path = tmp_path / "console"
        with path.open("wb") as file:

            async def run() -> None:
                console = Console(file.fileno())
                report = log(console, origin, level)
                for event in events:
                    report(event)
                with anyio.fail_after(DEADLINE):
                    assert await console.finish()

            anyio.run(run)
        return path.read_bytes()

    return console_of


def read(data: bytes) -> list[dict[str, Any]]:
    """The objects of JSON lines; every line is short, and no key comes twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    assert data.endswith(b"\n") or not data
    lines = data.split(b"\n")[:-1]
    assert [line for line in lines if len(line) >= MOST_BYTES or b"\0" in line] == []
    return [json.loads(line, object_pairs_hook=once) for line in lines]


# Events.


def test_an_event_is_one_json_object_whose_keys_begin_alike(shown):
    before = datetime.now(timezone.utc)
    (event,) = read(shown(json_log, GenerationStarted(2, 1)))
    assert list(event) == [
        *(*COMMON, "generation", "restarts_left"),
        *("cluster_restarts_used", "cluster_restarts_limit"),
    ]
    moment = event.pop("ts")
    assert TIMESTAMP.fullmatch(moment)
    told = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    assert before <= told <= before + timedelta(seconds=DEADLINE)
    assert event == {
        "seq": 0,
        "level": "info",
        "event": "generation.started",
        "msg": "generation 2 starts; restarts left: 1",
        "job_id": "modelarts-job-7",
        "host": "pod-0",
        "pid": 4711,
        "generation": 2,
        "restarts_left": 1,
        "cluster_restarts_used": None,
        "cluster_restarts_limit": None,
    }


EVENTS = (GenerationStarted(0, 0), OutputDropped(1, 5, "slow"), LogLost(1, 5, "full"))


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("debug", ["generation.started", "output.dropped", "log.lost"]),
        ("info", ["generation.started", "output.dropped", "log.lost"]),
        ("warning", ["output.dropped", "log.lost"]),
        ("error", ["log.lost"]),
    ],
)
def test_from_the_level_on_events_are_told_and_counted(shown, level, names):
    events = read(shown(json_log, *EVENTS, level=level))
    assert [event["event"] for event in events] == names
    assert [event["seq"] for event in events] == list(range(len(names)))
    assert {event["level"] for event in events} <= {"info", "warning", "error"}


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (ProcessExited(0, 0, 0, 7, 1, None, 1.0, first_failure=True, oom_killed=None), "error"),
        (ProcessExited(1, 1, 0, 8, 1, None, 1.0, first_failure=False, oom_killed=None), "info"),
        (SupervisorExited(1, "no restarts", 1, "rank 0"), "error"),
        (SupervisorExited(0, "every rank ended with 0", 1, None), "info"),
    ],
)
def test_a_failure_is_an_error(shown, event, level):
    (told,) = read(shown(json_log, event))
    assert told["level"] == level


def test_nothing_comes_after_the_last_line(shown):
    events = read(shown(json_log, SupervisorExited(0, "done", 1, None), LogLost(1, 5, "late")))
    assert [event["event"] for event in events] == ["supervisor.exited"]


def test_nul_is_stripped_wherever_it_is(shown):
    event = SupervisorStarted("1\0.0", ("a\0b", "\0"), "m\0", 0, ("s\0",))
    written = shown(json_log, event, origin=Origin("j\0ob", "h\0", 1))
    assert b"\\u0000" not in written
    (told,) = read(written)
    assert (told["version"], told["command"], told["job_id"]) == ("1.0", ["ab", ""], "job")


def test_what_is_not_utf_8_is_escaped(shown):
    (told,) = read(shown(json_log, SupervisorStarted("1", ("caf\udce9",), "m", 0, ())))
    assert told["command"] == [r"caf\udce9"]


LARGE = {
    "a long command": SupervisorStarted("1", ("python", "-c", "x" * 100_000), "ranktable", 0, ()),
    "many words": SupervisorStarted("1", ("word",) * 50_000, "ranktable", 0, ()),
    "many settings": SupervisorStarted(
        "1", ("x",), "ranktable", 0, tuple(f"setting-{n}=" + "y" * 90 for n in range(1000))
    ),
    "10,000 ranks": RankTableReady(
        "/t", "1.0", 10_000, 1, "pod", tuple(range(10_000)), "0" * 64, ()
    ),
    "many pids": OrphansKilled(9999, tuple(range(9999)), earlier_start=False),
    "many processes": StopWaiting(tuple(f"{n} (state D): python train.py" for n in range(9999))),
    "a long message": Diagnostic("asyncio", "中" * 99_999, "\x01" * 99_999),
    "a long traceback": Defect("x", "  File 'x.py', line 1\n" * 9999),
    "a long path": RankTableWaiting("/" + "p" * 4095, '"' * 99_999, 1.0),
    "a long cause": SupervisorExited(1, "\\" * 99_999, 1, "中" * 3800),
}


@pytest.mark.parametrize("event", LARGE.values(), ids=LARGE)
def test_a_line_stays_short_whatever_it_tells(shown, event):
    (told,) = read(shown(json_log, event, origin=Origin('"' * 150, "\\" * 150, 4_194_304)))
    assert list(told)[:8] == COMMON
    assert told["event"] == event.name


@pytest.mark.parametrize("event", LARGE.values(), ids=LARGE)
def test_a_key_keeps_its_type_when_it_is_cut(shown, event):
    (told,) = read(shown(json_log, event))
    for key in told.keys() - set(COMMON):
        whole = getattr(event, key)
        whole = list(whole) if isinstance(whole, tuple) else whole
        assert type(told[key]) is type(whole)
        if isinstance(whole, list) and whole:
            assert {type(item) for item in told[key]} <= {type(whole[0])}
            assert told[key][0] == whole[0]


def test_people_read_time_level_and_sentence(shown):
    cause = "rank 3 failed first\nthe last lines of its log:\n  ValueError"
    text = shown(text_log, *EVENTS, SupervisorExited(1, "no restarts", 1, cause)).decode()
    assert re.sub(rf"^{TIME}", "", text, flags=re.MULTILINE).splitlines() == [
        EVENTS[0].msg,
        f"warning: {EVENTS[1].msg}",
        f"error: {EVENTS[2].msg}",
        "error: no restarts; ending with exit code 1",
        *cause.splitlines(),
    ]
    assert len(re.findall(rf"^{TIME}", text, re.MULTILINE)) == 4


def test_people_read_the_headline_once(shown):
    cause = "rank 3 failed first\nthe last lines of its log:\n  ValueError"
    end = SupervisorExited(1, "rank 3 failed first; no restarts", 1, cause)
    first, *others = shown(text_log, end).decode().splitlines()
    assert first.endswith("error: rank 3 failed first; no restarts; ending with exit code 1")
    assert others == cause.splitlines()[1:]


# What a rank writes.


def fed(lines: Lines, chunks: Sequence[bytes], first_seq: int = 0) -> bytes:
    """What the console shows of a rank that writes these chunks and ends."""
    numbers = count(first_seq)
    shown = b"".join(lines.render(chunk, MOMENT, numbers) for chunk in chunks)
    return shown + lines.rest(MOMENT, numbers)


def json_lines(spec: ProcessSpec = SPEC) -> JsonLines:
    return JsonLines(spec, 2)


def joined(shown: bytes) -> str:
    """The text that the messages make together; a partial one is continued by the next."""
    messages = [(line["msg"], line.get("partial", False)) for line in read(bytes(shown))]
    return "".join(message + ("" if partial else "\n") for message, partial in messages)


def expected(data: bytes) -> str:
    return data.replace(b"\0", b"").decode("utf-8", "backslashreplace")


def cut(data: bytes, *places: int) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def reads(data: bytes, size: int) -> list[bytes]:
    return cut(data, *range(size, len(data), size))


def test_a_line_is_an_output_event():
    (event,) = read(fed(json_lines(), [b"loss 0.5\n"], 41))
    assert list(event) == ["seq", "ts", "event", "rank", "generation", "msg"]
    assert event == {
        "seq": 41,
        "ts": "2024-02-29T12:00:00.000000Z",
        "event": "output",
        "rank": 3,
        "generation": 2,
        "msg": "loss 0.5",
    }


def test_control_characters_are_escaped_in_json(shown):
    """Those of one byte, and those that JSON lets pass: C1, and two that break lines."""
    every = (
        bytes(range(0x20)).replace(b"\n", b"")
        + "".join(map(chr, [*range(0x80, 0xA1), *range(0x2027, 0x202A)])).encode()
    )
    for data in (fed(json_lines(), [every + b"\n"]), fed(json_lines(), [every])):
        assert not steering(bytes(data).decode())
        assert joined(data).removesuffix("\n") == expected(every)
    event = Diagnostic("a library", every.decode(), None)
    told = shown(json_log, event)
    assert not steering(told.decode())
    assert read(told)[0]["message"] == expected(every)


def test_a_process_without_a_rank_writes_output_as_well():
    spec = replace(SPEC, rank=None, local_rank=None)
    (event,) = read(fed(json_lines(spec), [b"x\n"]))
    assert (event["rank"], event["program"], event["msg"]) == (None, "python", "x")


def test_a_short_line_is_a_short_event():
    shown = fed(json_lines(), [b"step 1000, loss 0.73\n"], 999_999)
    assert len(shown) <= 120


@pytest.mark.parametrize("name", ["100%", "%d%s%%", "%(x)b", 'a"b\\c', "训练", "{}", "a\0b"])
def test_any_name_can_be_part_of_a_line(name):
    spec = replace(SPEC, rank=None, title=name)
    (event,) = read(fed(json_lines(spec), [b"50% done %s\n"], 7))
    assert event["program"] == name.replace("\0", "")
    assert (event["seq"], event["msg"]) == (7, "50% done %s")


TEXTS = {
    "nothing": b"",
    "empty lines": b"\n\n\n",
    "one byte short of a line": b"loss 0.5",
    "200 KB in one line": b"x" * 200_000 + b"\n",
    "10 MB in one line": b"0123456789" * 1_000_000 + b"\n",
    "10 MB without an end": b"0123456789" * 1_000_000,
    "a progress bar": b"\r 50% [###   ]" * 9999,
    "carriage returns only": b"\r" * 200_000,
    "carriage returns in lines": b"a\r\nb\rc\r\n",
    "every byte": bytes(range(256)) * 3,
    "every byte in long lines": bytes(range(256)) * 300,
    "NUL only": b"\0" * 50_000,
    "other line ends": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(),
    "long and short lines": b"short\n" + b"y" * 5000 + b"\n\nshort\n",
    "as long as a piece": b"z" * 1024 + b"\n" + b"z" * 1025 + b"\n" + b"z" * 2048 + b"\n",
    "as long as is pending": b"z" * 16_384 + b"\n" + b"z" * 16_385 + b"\n",
    "worst for JSON": b"\x01" * 50_000 + b"\n" + b'"\\' * 9999,
    "not UTF-8": b"\xff\xfe\xc0\x80\xed\xa0\x80" * 5000,
    "backslashes": rb"C:\new\table \u0041 \\n \"'" * 300 + b"\n\\n\n\\\n" + b'",' * 9,
    "quotes and commas": b'x",\n",y\n","\n' * 99,
    "other line ends in short lines": "a\u2028b\u2029c\x85d\n\u2027\u202a\xc2\n".encode() * 9,
    "many lines": b"step 1 loss 0.5\n" * 20_000,
}


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1 << 18, 4096, 1000])
@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_the_messages_together_are_the_text_and_are_numbered_without_a_gap(data, size):
    shown = fed(json_lines(), reads(data, size), 9)
    assert joined(shown) == expected(data)
    numbers = [event["seq"] for event in read(bytes(shown))]
    assert numbers == list(range(9, 9 + len(numbers)))


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_a_line_stays_short_whatever_a_rank_writes(data):
    worst = json_lines(replace(SPEC, rank=None, title='"\\' * 150))
    read(fed(worst, reads(data, 1 << 18), 10**12))


def test_only_what_goes_on_is_partial():
    shown = fed(json_lines(), [b"a\n" + b"x" * 2500 + b"\n\nb\n", b"c", b"d\n", b"end"])
    told = [(len(event["msg"]), event.get("partial")) for event in read(bytes(shown))]
    assert told == [
        *[(1, None), (1024, True), (1024, True), (452, None)],
        *[(0, None), (1, None), (2, None), (3, True)],
    ]


def test_an_unfinished_line_is_shown_once_it_is_long():
    lines, numbers = json_lines(), count()
    assert lines.render(b"x" * 16_384, MOMENT, numbers) == b""
    shown = lines.render(b"x", MOMENT, numbers)
    assert {event["partial"] for event in read(bytes(shown))} == {True}
    shown = lines.render(b"\n", MOMENT, numbers)
    (event,) = read(bytes(shown))
    assert event["msg"] == ""
    assert "partial" not in event
    assert lines.rest(MOMENT, numbers) == b""


CHARACTERS = "aé中\U0001f525\n".encode()


@pytest.mark.parametrize("place", range(len(CHARACTERS)))
@pytest.mark.parametrize("form", ["json", "text", "raw"])
def test_a_character_cut_between_two_reads_is_whole_again(form, place):
    assert shown_text(form, cut(CHARACTERS, place)) == CHARACTERS.decode()


@pytest.mark.parametrize("form", ["json", "text", "raw"])
def test_a_character_cut_between_two_reads_is_whole_again_in_a_long_line(form):
    data = "é中\U0001f525".encode() * 3000 + b"\n"
    text = data.decode().replace("\n", "")
    places = range(20_000, 20_012)
    assert [p for p in places if shown_text(form, cut(data, p)).replace("\n", "") != text] == []


def shown_text(form: str, chunks: Sequence[bytes]) -> str:
    """The text of the rank as it can be read on a console of this form."""
    if form == "json":
        return joined(fed(json_lines(), chunks))
    if form == "text":
        return unprefixed(fed(TextLines(LABEL), chunks)).decode("utf-8", "backslashreplace")
    return fed(RawLines(), chunks).decode("utf-8", "backslashreplace")


def unprefixed(shown: bytes) -> bytes:
    lines = shown.split(b"\n")
    assert lines.pop() == b""
    assert [line for line in lines if not line.startswith(b"[rank 3] ")] == []
    return b"".join(line[len("[rank 3] ") :] + b"\n" for line in lines)


CUTS = st.lists(st.integers(0, 400), max_size=8)
WRITTEN = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.text(max_size=20).map(str.encode),
        st.sampled_from([b"\n", b"\r", b"\0", b"%", b"\n\n", b"\xe4\xb8", b"\xad", b"x" * 1030]),
        st.sampled_from([b"\x1b[31m", b"\x1b[0m", b"\x1b]0;t\x07", b"\x1b[2J", b"\xc2\x9b2J"]),
    ),
    max_size=20,
).map(b"".join)


@given(data=WRITTEN, cuts=CUTS)
def test_json_gives_back_the_text_however_it_was_cut(data, cuts):
    shown = fed(json_lines(), cut(data, *cuts), 5)
    assert joined(shown) == expected(data)
    assert [event["seq"] for event in read(bytes(shown))] == list(range(5, 5 + len(read(shown))))


@given(data=WRITTEN, cuts=CUTS)
@pytest.mark.parametrize("as_shown", [harmless, coloured])
def test_text_is_the_same_however_it_was_cut(as_shown, data, cuts):
    seen = visible(data.replace(b"\0", b""))
    begun = seen.rpartition(b"\n")[2]
    end = b"\n" if begun.strip() else b""
    shown = fed(TextLines(LABEL, as_shown), cut(data, *cuts))
    assert unprefixed(shown) == as_shown(seen if end else seen[: len(seen) - len(begun)]) + end


@given(data=WRITTEN, cuts=CUTS)
def test_nothing_in_text_steers_a_terminal(data, cuts):
    assert not steering(fed(TextLines(LABEL, coloured), cut(data, *cuts)).decode())


@given(data=WRITTEN, cuts=CUTS)
def test_raw_gives_back_the_bytes_however_they_were_cut(data, cuts):
    assert fed(RawLines(), cut(data, *cuts)) == data


@pytest.mark.parametrize("size", [1 << 18, 4096, 1000])
@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_text_keeps_every_character_of_a_long_line(data, size):
    shown = unprefixed(fed(TextLines(LABEL), reads(data, size)))
    seen = visible(data.replace(b"\0", b""))
    assert shown.replace(b"\n", b"") == harmless(seen).replace(b"\n", b"")


def test_a_colour_that_is_cut_between_two_reads_is_a_colour():
    line = b"x" * 20_000 + b"\x1b[38;5;208morange\n"
    for place in range(20_000, 20_011):
        shown = unprefixed(fed(TextLines(LABEL, coloured), cut(line, place)))
        assert shown.replace(b"\n", b"") == line[:-1] + b"\x1b[0m"


def test_without_a_rank_the_program_is_named():
    assert fed(TextLines(named_label("python")), [b"x"]) == b"[python] x\n"


def test_rich_is_not_loaded_and_can_be_loaded_later(tmp_path):
    """structlog would load it: some 20 ms of every start where it is installed."""
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text("print('rich is loaded')")
    source = "import ascend_supervisor.program.run; print('everything is loaded'); import rich"
    said = subprocess.run(
        [sys.executable, "-c", source],
        env={"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert said.stdout == "everything is loaded\nrich is loaded\n"
