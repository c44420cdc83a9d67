"""The pictures of docs/pictures are drawn from recorded events, and so are the sentences beside."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.test_docs import CLASSES, between, page, word_complaints

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "data" / "timelines"
PICTURES = ROOT / "docs" / "pictures"
STORIES = sorted(path.name for path in RECORDED.iterdir())
LANGUAGES = {"en": ".svg", "zh": ".zh.svg"}
SVG = "{http://www.w3.org/2000/svg}"
STAMP = "2026-11-22T10:00:{:09.6f}Z"


def timelines(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    words = (sys.executable, str(ROOT / "scripts" / "timelines"), *arguments)
    return subprocess.run(words, capture_output=True, timeout=60, check=False)


def drawn(directory: Path, language: str = "en") -> bytes:
    done = timelines("--language", language, str(directory))
    assert done.stderr == b""
    return done.stdout


def elements(svg: bytes, name: str) -> list[ET.Element]:
    """All of this name, in the order of the document."""
    return list(ET.fromstring(svg).iter(f"{SVG}{name}"))  # noqa: S314  (our own)


def texts(svg: bytes) -> list[str]:
    """The texts that are seen."""
    return [text.text or "" for text in elements(svg, "text")]


def bars(svg: bytes, kind: str) -> list[tuple[float, float]]:
    """Left and right ends of the bars of one kind, in percent."""
    found = [
        (one["x"], one["width"])
        for one in (rect.attrib for rect in elements(svg, "rect"))
        if one.get("class") == f"k-{kind}" and one["x"].endswith("%")
    ]
    places = [(float(x.rstrip("%")), float(wide.rstrip("%"))) for x, wide in found]
    return [(x, x + wide) for x, wide in places]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("story", STORIES)
def test_a_picture_is_that_of_its_events(story, language):
    picture = PICTURES / f"{story}{LANGUAGES[language]}"
    assert drawn(RECORDED / story, language) == picture.read_bytes(), "see make pictures"


def test_every_picture_has_its_events():
    expected = {f"{story}{suffix}" for story in STORIES for suffix in LANGUAGES.values()}
    drawn = {path.name for path in PICTURES.iterdir() if not path.name.startswith("terminal-")}
    assert drawn == expected


def test_every_picture_is_that_of_one_test():
    """Of a test marked so: its events are the recorded ones."""
    sources = "\n".join(path.read_text() for path in (ROOT / "tests/recovery").glob("test_*.py"))
    assert sorted(re.findall(r'^@pytest.mark.picture\("(.+)"\)$', sources, re.MULTILINE)) == STORIES


@pytest.mark.parametrize("story", STORIES)
def test_recorded_events_are_in_the_words_of_today(story):
    """Else record them anew: make recordings."""
    for path in (RECORDED / story).glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] in CLASSES:
                assert not word_complaints(
                    CLASSES[event["event"]], f"Level `{event['level']}`", event
                )


# What is drawn ----------------------------------------------------------------------------------


@pytest.fixture
def story(tmp_path: Path) -> Callable[..., Path]:
    """Write the events of several supervisors: pairs of seconds and keys."""

    def write(*files: Sequence[tuple[float, dict[str, object]]]) -> Path:
        (tmp_path / "title.json").write_text('{"en": "a & b", "zh": "图"}')
        for number, events in enumerate(files):
            lines = [
                json.dumps({"ts": STAMP.format(at), "host": f"pod-{number}"} | keys)
                for at, keys in events
            ]
            (tmp_path / f"{number}.jsonl").write_text("\n".join(lines))
        return tmp_path

    return write


STARTED = {"event": "supervisor.started"}
RUNS = {"event": "generation.started", "generation": 0}
ENDED = {"event": "generation.ended"}
WAITS = {"event": "cluster.waiting"}
INCIDENT = {"event": "cluster.incident", "trigger": "retry_time"}
EXITED = {"event": "supervisor.exited", "exit_code": 69}


def test_a_run_is_bars_one_after_the_other(story):
    svg = drawn(
        story([(0, STARTED), (2, RUNS), (6, INCIDENT), (7, ENDED), (7.5, WAITS), (10, EXITED)])
    )
    assert bars(svg, "waiting") == [(0, 20), (75, 100)]
    assert bars(svg, "running") == [(20, 60)]
    assert bars(svg, "stopping") == [(60, 70)]
    assert bars(svg, "restarting") == [(70, 75)]


def test_what_happened_is_said(story):
    failure = {"event": "process.exited", "rank": 3, "signal": None, "status": 1}
    svg = drawn(
        story(
            [(0, RUNS), (3, failure | {"first_failure": True}), (4, INCIDENT), (9, EXITED)],
            [(1, {"event": "cluster.acted", "act": "withdrawn", "host": "cluster"})],
        )
    )
    seen = texts(svg)
    assert {"pod-0", "the cluster", "0 s", "8 s"} <= {*seen}
    assert {"rank 3 fails first", "incident: RetryTime changed"} <= {*seen}
    assert {"exit code 69", "table: initializing"} <= {*seen}


def test_a_later_failure_is_not_said(story):
    other = {"event": "process.exited", "rank": 1, "signal": "SIGTERM", "status": None}
    svg = drawn(story([(0, RUNS), (1, other | {"first_failure": False}), (2, EXITED)]))
    assert not [text for text in texts(svg) if "fails" in text]
    assert bars(svg, "stopping") == []


def test_a_host_that_had_two_supervisors_has_one_row(story):
    again = [(at, keys | {"host": "pod-0"}) for at, keys in ((5, STARTED), (6, RUNS), (9, EXITED))]
    svg = drawn(story([(0, STARTED), (1, RUNS), (3, EXITED)], again))
    assert texts(svg).count("pod-0") == 1
    (one, other) = bars(svg, "running")
    assert one[1] < other[0]


def test_texts_that_would_meet_stand_below_each_other(story):
    told = [(at, {"event": "signal.received", "signal": "SIGTERM"}) for at in (5.0, 5.1, 5.2)]
    svg = drawn(story([(0, STARTED), *told, (100 / 2, EXITED)]))
    heights = [text.get("y") for text in elements(svg, "text") if text.text == "SIGTERM"]
    assert len(heights) == len({*heights}) == 3


def test_lines_that_are_no_events_are_skipped(story):
    directory = story([(0, STARTED), (2, EXITED)])
    before = drawn(directory)
    with (directory / "0.jsonl").open("a") as file:
        file.write('\nnot json\n[1]\n{"event": "output"}\n')
    assert drawn(directory) == before


def test_without_a_title_that_is_the_name_of_the_directory(story):
    directory = story([(0, STARTED)])
    (directory / "title.json").unlink()
    title, *_ = elements(drawn(directory), "title")
    assert title.text == directory.name


def test_a_title_is_text_and_no_markup(story):
    title, *_ = elements(drawn(story([(0, STARTED)])), "title")
    assert title.text == "a & b"


def test_where_there_are_no_events_it_says_so(tmp_path):
    done = timelines(str(tmp_path))
    assert done.returncode == 1
    assert f"expected *.jsonl with events in {tmp_path}, found none".encode() in done.stderr


def test_every_word_has_its_translation():
    words = json.loads((ROOT / "scripts" / "timeline_words.json").read_text(encoding="utf-8"))
    assert words["en"].keys() == words["zh"].keys()
    for name, text in words["en"].items():
        assert text.count("{}") == words["zh"][name].count("{}")


# The pages --------------------------------------------------------------------------------------

LINE = re.compile(r"^ *([\d.]+) s  (.+)$", re.MULTILINE)


def story_complaints(text: str) -> list[str]:
    """Whether a page tells what the supervisor of pod 0 said, in its order."""
    path = RECORDED / "pod-level" / "1-pod-0.jsonl"
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    begin = _second(events[0]["ts"])
    said = [(f"{_second(event['ts']) - begin:.1f}", event["msg"]) for event in events]
    told = LINE.findall(between(text, "story"))
    places = [said.index(line) for line in told if line in said]
    complaints = [f"{line} was not said" for line in told if line not in said]
    complaints += ["nothing is told"] * (not told)
    return complaints + ["not in order"] * (places != sorted(places))


def _second(stamp: str) -> float:
    """Of the hour."""
    _, minutes, seconds = stamp.removesuffix("Z").split("T")[1].split(":")
    return int(minutes) * 60 + float(seconds)


@pytest.mark.parametrize("name", ["docs/recovery.md", "docs/recovery.zh.md"])
def test_the_pages_tell_the_recorded_story(name):
    assert story_complaints(page(name)) == []


def test_pages_are_given_the_story_of_their_events(tmp_path):
    told = page("docs/recovery.md")
    copy = tmp_path / "recovery.md"
    copy.write_text(LINE.sub("another story", told), encoding="utf-8")
    assert copy.read_text(encoding="utf-8") != told
    words = (ROOT / "scripts" / "tell-story", RECORDED / "pod-level" / "1-pod-0.jsonl", copy)
    subprocess.run((sys.executable, *map(str, words)), timeout=60, check=True)
    assert copy.read_text(encoding="utf-8") == told


@pytest.mark.parametrize(
    ("right", "wrong"), [("generation 1", "generation 2"), ("```text\n", "```text\n 99.9 s  a\n")]
)
def test_a_story_that_was_not_recorded_is_found(right, wrong):
    text = page("docs/recovery.md")
    begin, _, rest = text.partition("<!-- story:begin -->")
    assert right in rest
    assert story_complaints(f"{begin}<!-- story:begin -->{rest.replace(right, wrong, 1)}")
