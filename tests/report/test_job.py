"""Who failed first and why, from the events of all servers."""

from __future__ import annotations

import pytest
from markupsafe import escape
from msgspec.structs import asdict

from ascend_supervisor.causes.diagnosis import Diagnosis, diagnosis_by
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.evidence.communication import Suspect
from ascend_supervisor.evidence.diagnosed import pointed_at
from ascend_supervisor.report.job import ReportedJob, job
from ascend_supervisor.report.lines import lines
from ascend_supervisor.report.page import page
from ascend_supervisor.report.sentences import sentences
from ascend_supervisor.report.told import Present
from ascend_supervisor.report.words import LANGUAGES, WORDS
from tests.report.logs import (
    BEGIN,
    DONE,
    FIRST_CAUSE,
    HANGS,
    LOSING,
    NAN,
    event,
    exited,
    on,
    started,
)


def told(events) -> ReportedJob:
    found = job(events)
    assert found is not None
    return found


def headline(events) -> str:
    return sentences(told(events), "en").headline


def lead(events) -> dict[str, str]:
    return dict(sentences(told(events), "en").lead)


def test_each_failure_has_its_cause_its_last_lines_and_its_files():
    crash, hang = told(LOSING).failures
    assert (crash.first.rank, crash.first.cause) == (1, f"{FIRST_CAUSE}: {NAN}")
    assert (crash.first.files, crash.first.steps_lost) == (("/log/rank-1.txt",), 1)
    assert (hang.first.rank, hang.first.cause, hang.first.is_hang) == (2, HANGS, True)
    assert crash.first.quoted == ("the last lines of /log/rank-1.txt:", "  step 11", f"  {NAN}")
    assert hang.first.quoted == ("rank 2: reading shard 17", "rank 0: step 21")
    assert hang.first.places == "rank 2 is in next_batch (data.py:41)"
    assert hang.first.files == ("/log/rank-2.txt", "/log/hang")


def test_steps_are_lost_from_where_the_next_generation_went_on():
    events = [
        event("training.started", 60, step=7, start_seconds=10.0, steps_lost=6)
        if one["event"] == "training.started" and one["step"] == 7
        else one
        for one in LOSING
    ]
    assert told(events).failures[0].first.steps_lost == 6


def test_the_first_sentence_says_what_came_of_it_and_who_failed_first():
    assert headline(LOSING) == (
        "The job failed with exit code 124 after 1 min 48 s: "
        "rank 2 on pod-0 stopped first, in generation 1"
    )
    said = lead(LOSING)
    assert said["Why"] == HANGS
    assert said["First restart"].endswith(f"it exited with status 1 after 29.0 s: {NAN}")
    assert said["What to do"].startswith("Look where the ranks wait")


def test_a_job_that_ended_well_names_what_its_first_and_its_last_restart_came_from():
    lost = "server 2 was lost (pod-2)"
    end = {"generation": 1, "outcome": "fault", "next": "restart"}
    events = [
        *LOSING[:17],
        event("generation.started", 50, generation=1),
        event("generation.ended", 60, **end),
        event("restart.scheduled", 60, cause=lost),
        event("generation.started", 70, generation=2),
        event("generation.ended", 80, generation=2, outcome="completed", next="stop"),
        event("supervisor.exited", 81, exit_code=0, reason="every rank ended with 0"),
    ]
    assert headline(events) == "The job ended well after 1 min 21 s; restarts: 2"
    assert lead(events) == {
        "First restart": f"rank 1 on pod-0 failed first, in generation 0: it exited with status 1 "
        f"after 29.0 s: {NAN}",
        "Last restart": f"generation 1 ended: {lost}",
        "What to do": "Nothing for this job. Before the next one, look at what ended its "
        "generations, below.",
    }


def test_a_stop_while_a_restart_is_waited_for_is_why_it_ended_and_no_restart():
    reason = f"{FIRST_CAUSE}: {NAN}; told to stop by SIGTERM"
    events = [*LOSING[:17], event("supervisor.exited", 48, exit_code=143, reason=reason)]
    assert headline(events) == "The job was stopped after 48 s, with exit code 143"
    said = lead(events)
    assert said["Why"] == reason
    assert "First restart" not in said
    assert said["What to do"].startswith("If that was not meant, look who sent the signal")
    assert told(events).restarts == 0


def test_what_the_platform_starts_again_is_a_restart_as_in_the_account_of_the_time():
    again = [
        event("supervisor.started", 100, command=["python"], settings=[]),
        event("generation.started", 101),
        event("generation.ended", 110, outcome="completed", next="stop"),
        event("supervisor.exited", 111, exit_code=0, reason="every rank ended with 0"),
    ]
    events = [*LOSING, *again]
    begun = sum(one["event"] == "generation.started" for one in LOSING) + 1
    assert told(events).restarts == begun - 1
    assert headline(events).endswith(f"; restarts: {begun - 1}")


@pytest.mark.parametrize(("name", "is_told"), [("job", False), ("llama-8", True)])
def test_the_account_of_the_last_start_is_that_of_the_job_only_if_the_job_has_a_name(name, is_told):
    account = {"training": 2.0, "waiting": 1.0}
    events = [
        {**one, "job_id": name}
        for one in (
            *LOSING,
            event("supervisor.started", 100, command=["python"], settings=[]),
            event("supervisor.exited", 103, exit_code=1, account=account, trained="trained"),
        )
    ]
    assert (told(events).account == account) is is_told
    assert told(events).trained == ("trained" if is_told else "")


def ended(host: str, at: float, cause: str, *, rank: int | None = None, server: int | None = None):
    """A server whose generation ends at that moment, and with it the job."""
    own = [] if rank is None else [exited(rank, at, first=True, msg=f"rank {rank} exited")]
    outcome = {"outcome": "fault" if rank is None else "crashed", "next": "stop"}
    last = {"exit_code": 1, "reason": cause, "root_cause": cause, "peers_server": server}
    return on(
        host,
        [
            event("generation.started", 1, generation=0),
            started(rank or 0, 2),
            *own,
            event("generation.ended", at + 2, generation=0, **outcome),
            event("supervisor.exited", at + 3, **last),
        ],
    )


def test_of_several_servers_the_one_whose_rank_failed_by_itself_is_the_cause():
    """It is neither the first in the files, nor the first that told a failure."""
    lost = "rank 9 failed first, in generation 0: a consequence: a lost connection; look at rank 3"
    events = [
        *ended("pod-2", 20, lost, rank=9),
        *ended("pod-0", 22, "server 1 failed: rank 3 was killed by SIGKILL"),
        *ended("pod-1", 21, "rank 3 failed first, in generation 0: it was killed", rank=3),
    ]
    (failure,) = told(events).failures
    assert failure.first.host == "pod-1"
    assert {end.host for end in failure.others} == {"pod-0", "pod-2"}
    assert headline(events).endswith("rank 3 on pod-1 failed first, in generation 0")


def test_generations_with_one_number_that_ran_at_other_times_are_other_failures():
    again = [{**one, "ts": one["ts"].replace("T08", "T09")} for one in LOSING]
    assert [failure.first.generation for failure in told([*LOSING, *again]).failures] == [
        *(0, 1, 0, 1)
    ]


def life(host: str, number: int, at: float, *after):
    return on(host, [event("generation.started", at, generation=number), *after])


def test_a_server_that_was_lost_before_the_last_generation_does_not_keep_the_job_open():
    end = event(
        "supervisor.exited", 50, exit_code=0, reason="all ranks of all servers ended with 0"
    )
    assert told([*life("a", 0, 1), *life("a", 1, 40, end), *life("b", 0, 1)]).advice == "nothing"
    assert told([*life("a", 0, 1, end), *life("b", 0, 1)]).advice == "look_open"


def test_the_cause_that_servers_agree_on_is_told_once():
    cause = "server 1: rank 3 was killed by SIGKILL"
    events = [*ended("pod-0", 22, cause), *ended("pod-1", 21, cause, rank=3)]
    assert headline(events).endswith("rank 3 on pod-1 failed first, in generation 0")
    assert lead(events)["Why"] == "it was killed by SIGKILL"


def test_of_other_servers_only_the_settings_are_told_that_differ():
    first = event("supervisor.started", 0, settings=["servers=2 (file)", "node-rank=0 (file)"])
    other = event("supervisor.started", 0, settings=["servers=2 (file)", "node-rank=1 (file)"])
    same = event("supervisor.started", 0, settings=["servers=2 (file)"])
    events = [*on("a", [first]), *on("b", [other]), *on("c", [same])]
    assert sentences(told(events), "en").settings == (
        ("", ("servers=2 (file)", "node-rank=0 (file)")),
        ("Settings of b", ("node-rank=1 (file)",)),
    )


STANDING = [
    *LOSING[:11],
    event(
        "training.stalled", 100, generation=0, step=15, silent_seconds=60.0, seen="rank 0 is in f"
    ),
]


def test_what_stands_still_is_told_up_to_now():
    now = Present("pod-0", BEGIN + 700, runs=True)
    found = job(STANDING, now)
    assert found is not None
    said = sentences(found, "en")
    assert said.headline == (
        "The job has run for 12 min; it stands still: no step after step 15 since "
        "2027-01-15 08:00:40 UTC"
    )
    assert dict(said.lead)["Where the ranks waited"] == "rank 0 is in f"
    assert said.progress == "to step 15 of 100, checkpoint of step 10"
    assert found.account == {"waiting": 10, "start": 10, "training": 20, "stalled": 660}


def test_events_alone_tell_a_stall_up_to_their_end():
    assert "1 min 40 s; when these events end, it stands still: no" in headline(STANDING)
    goes_on = event("training.resumed", 120, generation=0, step=16, silent_seconds=80.0)
    assert "stands still" not in headline([*STANDING, goes_on])
    ended = event("generation.ended", 200, generation=0)
    assert told([*STANDING, goes_on, ended]).account["stalled"] == 80


def test_a_job_that_runs_has_run_until_now_and_is_at_its_latest_step():
    latest = {"generation": 0, "step": 90, "steps": 100, "step_time": event("now", 690)["ts"]}
    now = Present("pod-0", BEGIN + 700, runs=True, **latest)
    found = job(LOSING[:11], now)
    assert found is not None
    said = sentences(found, "en")
    assert said.headline == "The job has run for 12 min, and goes on"
    assert said.progress == "to step 90 of 100, checkpoint of step 10"


ADVICES = [
    ("stands", STANDING),
    ("nothing", DONE),
    ("look_back", [*LOSING[:-4], *DONE[-2:]]),
    (
        "look_early",
        [
            *DONE[:-1],
            event("supervisor.exited", 9, exit_code=0, doubt="the last step seen is 1 of 9"),
        ],
    ),
    ("look_open", LOSING[:-1]),
    ("look_open", DONE[:-1]),
    ("hang", LOSING),
    ("read_lines", ended("a", 9, "rank 3 failed first, in generation 0: it exited", rank=3)),
    ("memory", ended("a", 9, "rank 3 was killed, because memory ran out (x)", rank=3)),
    ("elsewhere", ended("a", 9, "rank 3: a consequence: lost; look at rank 7", rank=3)),
    (
        "who_stopped",
        [
            *LOSING[:5],
            event("supervisor.exited", 9, exit_code=143, reason="told to stop by SIGTERM"),
        ],
    ),
    ("correct", [event("supervisor.exited", 9, exit_code=64, reason="--x is not known")]),
    ("table", [event("supervisor.exited", 9, exit_code=75, reason="no table")]),
    ("device", [event("supervisor.exited", 9, exit_code=69, reason="held")]),
    ("defect", [event("supervisor.exited", 9, exit_code=70, reason="a defect")]),
    ("read_sentence", [event("supervisor.exited", 9, exit_code=3, reason="else")]),
]


@pytest.mark.parametrize(("advice", "events"), ADVICES)
def test_what_to_do_follows_from_the_end(advice, events):
    assert told(events).advice == advice


def test_every_advice_is_reached():
    runs = job(DONE[:-1], Present("pod-0", BEGIN + 60, runs=True))
    assert runs is not None
    assert {f"advice.{one}" for one in (runs.advice, *(one for one, _ in ADVICES))} == {
        key for key in WORDS["en"] if key.startswith("advice.")
    }


def test_without_a_told_account_that_of_the_bars_is_taken():
    assert told(LOSING).account["stalled"] == 28
    account = told(LOSING[:-1]).account
    assert (account["stalled"], account["stopping"]) == (20, 5 + 12)


def test_of_very_many_failures_the_first_and_the_last_are_told():
    life = [
        event("generation.started", 0),
        event("generation.ended", 0.4, outcome="fault", next="restart", cause="x"),
    ]
    events = [
        {**one, "ts": event("x", number + at)["ts"], "generation": number}
        for number in range(50)
        for at, one in enumerate(life)
    ]
    said = sentences(told(events), "en")
    assert [one.number for one in said.failures] == [*range(1, 31), *range(41, 51)]
    assert said.failures_more == "10 more are not shown."


def test_every_word_has_its_translation():
    english, chinese = (WORDS[language] for language in LANGUAGES)
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        fields = {part.partition("}")[0] for part in text.split("{")[1:]}
        assert fields == {part.partition("}")[0] for part in chinese[key].split("{")[1:]}, key


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_text_has_what_the_page_has(language):
    text = "\n".join(lines(told(LOSING), language))
    words = WORDS[language]
    for key in ("account", "progress", "timeline", "failures", "settings", "versions"):
        assert words[key] in text
    for said in (HANGS, NAN, "46.3 %", "reading shard 17", "/log/rank-1.txt", "train.py"):
        assert said in text
    steps, row = (line for line in text.splitlines() if line.startswith("  |"))
    assert steps.strip(" |").split() == ["▁" * 8, "▁▁▁▁▂▂▂"]
    first = {letter: row.index(letter) for letter in row.strip(" |")}
    assert sorted(first, key=lambda letter: first[letter]) == [*".-=Fx:~!g"]


DISK = diagnosis_by(CAUSES["disk-full"], 3)
LOST = pointed_at(Suspect("7"), diagnosis_by(CAUSES["lost-peer"], None))


def failing(known: Diagnosis, **last: object):
    """A job that restarts once, and then ends with the same failure."""
    cause = "rank 3 failed first, in generation {}: it exited with status 1"
    first = ended("a", 9, cause.format(0), rank=3)[:-1]
    first[-1] |= {"next": "restart", "diagnosis": asdict(known)}
    again = event("generation.started", 20, generation=1)
    second = ended("a", 29, cause.format(1), rank=3)[1:]
    second[-2] |= {"generation": 1}
    second[-1] |= {"diagnosis": asdict(known)} | last
    restart = event("restart.scheduled", 12, cause=cause.format(0), diagnosis=asdict(known))
    return [*first, *on("a", [restart, again]), *second]


def test_a_known_cause_and_what_to_do_stand_where_it_says_why():
    said = lead(failing(DISK))
    assert said["Why"] == f"{DISK.text} [disk-full]"
    assert said["As it was told"] == "it exited with status 1"
    assert said["First restart"] == (
        f"rank 3 on a failed first, in generation 0: {DISK.text} [disk-full]"
    )
    assert said["What to do"] == f"{DISK.remedy[0].upper()}{DISK.remedy[1:]}."


def test_of_a_consequence_it_says_which_rank_to_look_at():
    assert lead(failing(LOST))["What to do"] == "Look at rank 7."


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_failure_has_its_known_cause_in_the_language_of_the_report(language):
    story = told(failing(DISK))
    assert [one.known for one in sentences(story, language).failures] == [DISK.told(language)] * 2
    assert "\n".join(lines(story, language)).count(DISK.told(language)) == 2
    assert page(story, language).decode().count(f"<strong>{escape(DISK.told(language))}") == 2


def test_what_a_signal_or_a_hang_asks_for_is_not_replaced_by_a_remedy():
    stopped = failing(DISK, reason="told to stop by SIGTERM")
    assert lead(stopped)["What to do"].startswith("If that was not meant, look who sent")


@pytest.mark.parametrize("broken", [{"text": 3}, {"layer": "moon"}, {"id": None}])
def test_a_cause_that_is_none_of_ours_counts_for_nothing(broken):
    events = [
        {**one, "diagnosis": asdict(DISK) | broken} if "diagnosis" in one else one
        for one in failing(DISK)
    ]
    assert lead(events)["Why"] == "it exited with status 1"


def test_lines_of_ranks_steer_no_terminal():
    evil = "\x1b]0;owned\x07\x9b31m\u202e\r\n" + "z" * 1_000_000
    known = dict.fromkeys(asdict(DISK), evil) | {"layer": "host", "is_consequence": True, "rank": 1}
    told_by = {"host": evil, "msg": evil, "cause": evil, "summary": evil, "diagnosis": known}
    events = [{**one, **told_by} for one in LOSING]
    text = "\n".join(lines(told([*LOSING, *events]), "en"))
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text) < 100_000


JUNK = [None, True, "x", -1, 1.5, 10**18, float("nan"), [], {}, [None], {"a": "b"}]


@pytest.mark.thorough
@pytest.mark.parametrize("junk", JUNK)
def test_nothing_in_an_event_is_trusted(junk):
    for key in {key for one in LOSING for key in one}:
        found = told([*LOSING, *({**one, key: junk} for one in LOSING)])
        assert "\n".join(lines(found, "en"))
        assert page(found, "en")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ([], "an operator."),
        ([event("training.started", 20, step=1, start_seconds=9.0)], " may begin anew."),
        (
            [
                event("training.started", 20, step=1, start_seconds=9.0),
                event("checkpoint.saved", 31, step=10),
            ],
            " can go on from the checkpoint of step 10.",
        ),
    ],
    ids=["no step", "no checkpoint", "checkpoint"],
)
def test_a_job_that_was_stopped_goes_on_from_a_checkpoint_only_if_one_was_seen(seen, words):
    stopped = event("supervisor.exited", 40, exit_code=143, reason="told to stop by SIGTERM")
    assert lead([*LOSING[:5], *seen, stopped])["What to do"].endswith(words)
