"""The schema of the log: names, keys and types that log shippers hold on to."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec.structs import fields, replace

from ascend_supervisor import events
from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.events import Event, Level
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    RestartScheduled,
)
from ascend_supervisor.events.leftovers import StopWaiting
from ascend_supervisor.events.output import Output
from ascend_supervisor.events.rank_table import RankTableReady
from ascend_supervisor.events.supervisor import ClusterSource, ControlRequested, SupervisorStarted
from ascend_supervisor.phrases import who

MODULES = [
    importlib.import_module(f"{events.__name__}.{module.name}")
    for module in pkgutil.iter_modules(events.__path__)
]
EVENTS: list[type[Event]] = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
]
COMMON = {"seq", "ts", "level", "event", "msg", "job_id", "host", "pid"}
OF_OUTPUT = {"seq", "ts", "event"}
"""Those of them that ``output`` has, besides a msg of its own: the line."""
RANK_KEYS = {"rank", "local_rank", "generation"}

PROMISED: dict[str, set[str]] = {
    "supervisor.started": {"version", "command", "method", "restarts", "settings"},
    "rank_table.waiting": {"path", "reason", "waited_seconds"},
    "rank_table.ready": {
        *("path", "format", "world_size", "servers", "this_server", "local_ranks", "sha256"),
        "warnings",
    },
    "generation.started": {"generation", "restarts_left"},
    "process.started": {*RANK_KEYS, "child_pid", "log"},
    "process.exited": {
        *RANK_KEYS,
        *("child_pid", "status", "signal", "runtime_seconds", "first_failure", "oom_killed"),
    },
    "ranks.ended": {"generation", "awaited"},
    "generation.ended": {
        *("generation", "outcome", "first_failed_rank", "duration_seconds", "next"),
    },
    "restart.scheduled": {"delay_seconds", "restarts_left"},
    "output": {"rank", "generation", "msg", "partial"},
    "output.dropped": {"rank", "lines", "reason"},
    "log.lost": {"rank", "bytes", "reason"},
    "log.rotated": {"rank"},
    "stop.waiting": {"remaining"},
    "orphans.killed": {"count", "pids"},
    "signal.received": {"signal"},
    "supervisor.exited": {"exit_code", "reason", "generations", "root_cause"},
}
"""spec: the events that people and machines hold on to, each with its own keys."""


def keys(event: type[Event]) -> dict[str, Any]:
    hints = get_type_hints(event)
    return {field.name: hints[field.name] for field in fields(event)}


def family(annotation: Any) -> str:
    """The JSON type of a key; null, where it is allowed, stands beside any of them."""
    if get_origin(annotation) in {Union, UnionType}:
        (annotation,) = (kind for kind in get_args(annotation) if kind is not NoneType)
    if get_origin(annotation) is Literal:
        (annotation,) = {type(value) for value in get_args(annotation)}
    if get_origin(annotation) is tuple:
        item, dots = get_args(annotation)
        assert dots is ...
        return f"list of {family(item)}"
    if get_origin(annotation) is dict:
        return "object"
    if annotation is Diagnosis:
        return "diagnosis"
    return {bool: "bool", int: "int", float: "float", str: "str"}[annotation]


def sample(annotation: Any, text: str) -> Any:
    """A value of the type, with ``text`` wherever it may hold one."""
    if get_origin(annotation) in {Union, UnionType}:
        return sample(get_args(annotation)[0], text)
    if get_origin(annotation) is Literal:
        return get_args(annotation)[0]
    if get_origin(annotation) is tuple:
        return (sample(get_args(annotation)[0], text),) * 2
    if get_origin(annotation) is dict:
        return {text: text}
    if annotation is Diagnosis:
        return Diagnosis(text, text, text, text, text, "user", is_consequence=False)
    return {bool: True, int: 7, float: 1.5, str: text}[annotation]


def made(event: type[Event], text: str) -> Event:
    return event(**{key: sample(kind, text) for key, kind in keys(event).items()})


def conflicts(schema: list[type[Event]]) -> list[str]:
    """The keys that have one type in one event and another type in another."""
    seen: dict[str, str] = {}
    return [
        f"{event.name}: {key} is {family(kind)}, elsewhere {seen[key]}"
        for event in schema
        for key, kind in keys(event).items()
        if seen.setdefault(key, family(kind)) != family(kind)
    ]


def test_an_event_inherits_from_no_other():
    assert {event.__bases__ for event in EVENTS} == {(Event,)}


def test_names_are_unique_and_plain():
    names = [event.name for event in EVENTS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", name)] == []


def test_keys_are_plain_and_none_hides_a_common_one():
    told = [(event.name, key) for event in EVENTS for key in keys(event)]
    assert [one for one in told if not re.fullmatch(r"[a-z][a-z0-9_]*", one[1])] == []
    assert [one for one in told if one[1] in COMMON] == [(Output.name, "msg")]


def test_no_value_is_an_object_but_the_account_of_the_time_and_a_diagnosis():
    objects = [
        f"{event.name}.{key}"
        for event in EVENTS
        for key, kind in keys(event).items()
        if family(kind) in {"object", "diagnosis"} and key != "diagnosis"
    ]
    assert objects == ["supervisor.exited.account"]


def test_a_key_has_one_type_over_all_events():
    assert conflicts(EVENTS) == []


def test_a_key_of_two_types_would_be_found():
    class Odd(Event, frozen=True):
        name: ClassVar[str] = "odd"
        rank: str

    class Even(Event, frozen=True):
        name: ClassVar[str] = "even"
        rank: int | None

    assert conflicts([*EVENTS, Even]) == []
    (told,) = conflicts([*EVENTS, Odd])
    assert told == "odd: rank is str, elsewhere int"


@pytest.mark.parametrize("name", PROMISED)
def test_what_is_promised_is_there_with_its_keys(name):
    (event,) = (event for event in EVENTS if event.name == name)
    assert PROMISED[name] <= keys(event).keys()


@pytest.mark.parametrize("text", ["plain", "", "two\nlines", "one\rline"])
def test_the_sentence_is_one_line_and_never_empty_whatever_strangers_wrote(text):
    sentences = {event.name: made(event, text).msg for event in EVENTS if event is not Output}
    assert [name for name, msg in sentences.items() if msg.splitlines() != [msg]] == []
    assert [name for name, msg in sentences.items() if not msg.strip()] == []


def test_its_level_is_one_of_the_four():
    levels = {event.name: {event.level, made(event, "x").severity} for event in EVENTS}
    assert [name for name, used in levels.items() if not used <= set(get_args(Level))] == []


@pytest.mark.parametrize(
    ("rank", "program", "name"),
    [
        (None, None, "the launcher"),
        (None, "torchrun", "torchrun"),
        (0, None, "rank 0"),
        (17, None, "rank 17"),
    ],
)
def test_who_is_meant(rank, program, name):
    assert who(rank, program) == name


@pytest.mark.parametrize("source", get_args(ClusterSource))
def test_the_first_event_says_what_runs_and_where_the_cluster_comes_from(source):
    command = ("sh", "-c", "exit 2")
    sentence = SupervisorStarted("1", command, "once", 0, (), source, "why").sentence
    words = "no cluster is read: " if source == "none" else "the cluster comes from "
    assert sentence.startswith(f"ascend_supervisor 1 will run: sh -c 'exit 2'; {words}")
    assert sentence.endswith(" (why)")


FREE = RestartScheduled(2.0, 3, "restart asked for by process 812 of user root", free=True)


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            RestartScheduled(2.0, 3, "rank 1 failed first"),
            "rank 1 failed first; all ranks restart in 2.0 s; restarts left after that: 3",
        ),
        (
            RestartScheduled(
                *(2.0, 0, "pods were replaced"),
                free=True,
                cluster_restarts_used=2,
                cluster_restarts_limit=10,
            ),
            (
                "all ranks restart in 2.0 s, not charged to --restarts (pods were replaced); "
                "restarts by the cluster within an hour: 2 of 10"
            ),
        ),
        (
            GenerationStarted(1, 0, 1, 10),
            "generation 1 starts; restarts by the cluster within an hour: 1 of 10",
        ),
        (
            GenerationStarted(1, 3, 1, 10),
            (
                "generation 1 starts; restarts left: 3; restarts by the cluster within an hour: "
                "1 of 10"
            ),
        ),
        (
            FREE,
            (
                "all ranks restart in 2.0 s, not charged to --restarts (restart asked for by "
                "process 812 of user root); restarts left after that: 3"
            ),
        ),
        (
            StopWaiting(("rank 3: 7303 (state S): python",), 5.0, 30.0, then="SIGKILL"),
            "still waiting for the end of: rank 3: 7303 (state S): python; SIGKILL in 25 s",
        ),
        (
            StopWaiting(("7303 (state D): python",), 5.0, 30.0),
            "still waiting for the end of: 7303 (state D): python",
        ),
        (
            ControlRequested("stop", 1000, 7, "stopping", "trainer"),
            "process 7 of user trainer asked for stop: stopping",
        ),
        (
            ControlRequested("stop", 1000, 7, "stopping"),
            "process 7 of user 1000 asked for stop: stopping",
        ),
    ],
)
def test_a_sentence_says_what_operators_need(event, sentence):
    assert event.sentence == sentence


READY = RankTableReady("/t", "1.2", 4, 2, "pod-0", (0, 1), "0", ())


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            READY,
            "the rank table /t (1.2) holds 4 devices on 2 servers; this is pod-0, with ranks 0, 1",
        ),
        (
            replace(READY, local_ranks=(), warnings=("no device_ip",)),
            (
                "the rank table /t (1.2) holds 4 devices on 2 servers; this is pod-0, "
                "without ranks; no device_ip"
            ),
        ),
        (
            replace(READY, local_ranks=(3,)),
            "the rank table /t (1.2) holds 4 devices on 2 servers; this is pod-0, with rank 3",
        ),
        (
            replace(READY, path="--standalone", format="template 1", world_size=2, servers=1),
            "no rank table (--standalone): 2 devices on this machine, with ranks 0, 1",
        ),
        (
            replace(READY, path="environment", format="no file"),
            (
                "no rank table: variables of the platform declare 4 devices on 2 servers; this is "
                "pod-0, with ranks 0, 1"
            ),
        ),
        (
            replace(READY, path="environment", format="no file", world_size=0, servers=0),
            "no rank table, and no devices are known: the command runs once, as it is",
        ),
    ],
    ids=["a file", "no rank here", "one rank", "standalone", "variables", "no devices"],
)
def test_where_the_cluster_comes_from_is_said_without_a_table_that_nobody_wrote(event, sentence):
    assert event.msg == sentence


@pytest.mark.parametrize(
    ("following", "why"), [("restart", ": rank 1 hangs"), ("stop", " (fault)")]
)
def test_why_a_generation_ended_is_left_to_the_last_event_where_nothing_follows(following, why):
    event = GenerationEnded(0, "fault", None, 5.1, following, "rank 1 hangs")
    assert event.sentence == f"generation 0 ended after 5.1 s{why}; next: {following}"
