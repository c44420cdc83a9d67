"""Single decisions that the search does not reach, or does not notice."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import (
    Act,
    Exit,
    Forget,
    Read,
    RecordChange,
    WaitUntil,
)
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.memory import PeerMemory, memory_at, remember
from ascend_supervisor.coordination.agreement.records import (
    About,
    Beat,
    Cause,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Record,
    Seat,
    Spare,
    decode,
    encode,
    lease_of,
)
from ascend_supervisor.coordination.agreement.situation import (
    Clocks,
    JobRules,
    Obstacle,
    Ranks,
    Self,
    Situation,
)
from ascend_supervisor.coordination.agreement.view import View, view_of
from ascend_supervisor.etcd.values import Delete, Equals, Put
from ascend_supervisor.outcome import Crashed, Ended, ExitStatus, Failure
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from tests.coordination.agreement.store import deleted_by, put_by

RULES = JobRules(Self("A", "a"), 2, RestartBudget(1, backoff=Backoff(8.0, 60.0)), settings="s")
GATHER = Epoch("job", 0, Phase.GATHER, "w0")
RUN = Epoch("job", 0, Phase.RUN, "w1")
ROSTER = (Seat("A", "a"), Seat("B", "b"))
ABOUT = About("w", "s")
READY = Situation(table="t")
RUNNING = Situation(Ranks.RUNNING, 0, table="t")
STOPPED = replace(RUNNING, stop=15)
FAILURE = Failure("rank 0", 0, 0, ExitStatus(3), 1.0)
CRASH = Ended(Crashed(FAILURE), 1.0)


def view(epoch: Epoch | None, about: About = ABOUT, **more: Record) -> View:
    """Both servers live; ``ready__0__1`` is the key ready/0/1, and so on."""
    kept: dict[str, Record] = {
        records.server_key(0): Member("job", "A", "a"),
        records.server_key(1): Member("job", "B", "b"),
        records.alive_key(0): Beat("A"),
        records.alive_key(1): Beat("B"),
    }
    if epoch is not None:
        kept |= {records.EPOCH_KEY: epoch, records.ABOUT_KEY: replace(about, stamp=epoch.stamp)}
    kept |= {name.replace("__", "/"): record for name, record in more.items()}
    return view_of({name: encode(record) for name, record in kept.items()}, 1)


def without(seen: View, *names: str) -> View:
    return view_of({name: one for name, one in seen.values.items() if name not in names}, 1)


def known(*views: View, at: float = 100.0, rules: JobRules = RULES) -> PeerMemory:
    """What is remembered after these reads, one a second."""
    memory = memory_at(at)
    for second, one in enumerate(views):
        memory = remember(memory, one, at + second, at + second, rules)
    return memory


def act(
    seen: View, situation: Situation = READY, later: float = 0.0, rules: JobRules = RULES
) -> Act:
    return decide(seen, known(seen, rules=rules), Clocks(100 + later, "new"), situation, rules)


def epoch_of(written: Act) -> Epoch:
    assert isinstance(written, RecordChange)
    value = put_by(written)[records.EPOCH_KEY]
    return decode(records.EPOCH_KEY, value, Epoch)


def about_of(written: Act) -> About:
    assert isinstance(written, RecordChange)
    value = put_by(written)[records.ABOUT_KEY]
    return decode(records.ABOUT_KEY, value, About)


def test_told_to_stop_without_contact_it_ends_before_the_fence_falls():
    stopping = replace(READY, stop=2)
    assert isinstance(act(view(GATHER), stopping, later=RULES.ttl + 1), Exit)
    assert isinstance(act(view(GATHER), READY, later=RULES.ttl + 1), Read)


def test_what_was_read_too_long_ago_is_read_again():
    assert isinstance(act(view(GATHER), later=RULES.ttl + 1), Read)


def test_without_an_index_it_stops_without_a_word():
    stopping = replace(READY, stop=15)
    ended = act(view(GATHER), stopping, rules=replace(RULES, own=Self("X", "x")))
    assert isinstance(ended, Exit)
    assert (ended.exit_code, ended.farewell) == (143, None)


@pytest.mark.parametrize("started", [None, 0])
def test_another_job_ends_those_who_have_run_and_is_joined_by_the_others(started):
    memory = replace(known(view(RUN)), started=started)
    other = view(replace(RUN, job="other"))
    found = decide(other, memory, Clocks(100, "new"), READY, RULES)
    if started is None:
        assert isinstance(found, Forget)
    else:
        assert isinstance(found, Exit)
        assert (found.exit_code, found.kills) == (69, True)


def test_another_job_that_has_ended_is_an_old_one_to_a_member_that_runs():
    memory = replace(known(view(RUN)), started=0)
    old = view(Epoch("other", 0, Phase.END, "w9", 3))
    back = decide(old, memory, Clocks(100, "new"), RUNNING, RULES)
    assert (epoch_of(back).job, epoch_of(back).phase) == ("job", Phase.RUN)
    assert about_of(back).again
    frozen = decide(old, replace(memory, contact=70.0), Clocks(100, "new"), RUNNING, RULES)
    assert isinstance(frozen, Exit)


def test_its_own_farewell_that_it_finds_written_is_an_end():
    left = without(view(GATHER, server__0=Member("job", "A", "a", has_left=True)), "alive/0")
    found = act(left, replace(READY, stop=15))
    assert isinstance(found, Exit)
    assert found.exit_code == 143


def test_settings_that_differ_are_refused_and_both_are_named():
    newcomer = replace(RULES, own=Self("X", "x"), settings="mine")
    found = act(view(GATHER), rules=newcomer)
    assert isinstance(found, Exit)
    assert (found.exit_code, "mine" in found.reason, "with s;" in found.reason) == (64, True, True)


def test_an_obstacle_ends_the_job_of_a_member_and_only_the_newcomer_else():
    blocked = replace(READY, obstacle=Obstacle(75, "no table came"))
    written = act(view(GATHER), blocked)
    assert (epoch_of(written).phase, epoch_of(written).exit_code) == (Phase.END, 75)
    assert about_of(written).cause == Cause(0, 75, "no table came")
    newcomer = act(view(GATHER), blocked, rules=replace(RULES, own=Self("X", "x")))
    assert isinstance(newcomer, Exit)
    assert newcomer.exit_code == 75


def test_a_member_that_is_no_part_of_the_run_leaves_it():
    running = view(RUN, replace(ABOUT, roster=(Seat("old", "a"), Seat("B", "b"))))
    written = act(running, replace(READY, stop=15))
    assert isinstance(written, RecordChange)
    assert deleted_by(written) == ("alive/0", "ready/0/0")


def test_a_server_that_is_done_leaves_and_keeps_its_done():
    running = view(RUN, replace(ABOUT, roster=ROSTER), done__0__0=PhaseMark("A", "t"))
    succeeded = Situation(Ranks.SUCCEEDED, 0, stop=15, table="t")
    written = act(running, succeeded)
    assert isinstance(written, RecordChange)
    assert written.then == (Delete("alive/0"),)
    assert written.afterwards is not None


def test_tables_that_differ_start_nothing_and_are_both_named_in_the_end():
    seen = view(GATHER, ready__0__0=PhaseMark("A", "t"), ready__0__1=PhaseMark("B", "u"))
    assert isinstance(act(seen), WaitUntil)
    memory = replace(known(seen), only_ready=100 - RULES.timeout)
    written = decide(seen, memory, Clocks(100, "new"), READY, RULES)
    assert epoch_of(written).exit_code == 65
    cause = about_of(written).cause
    assert cause is not None
    assert cause.reason == "the rank tables differ: server 0 has t, server 1 has u"
    assert cause.server == 1


def test_who_did_not_come_back_is_named_in_the_end():
    called = Member("job", "B", "b", host="pod job-1, node n2, address 10.0.0.2")
    about = replace(ABOUT, cause=Cause(0, 7, "rank 0 exited with status 7"), roster=ROSTER)
    seen = view(
        replace(GATHER, generation=1), about, ready__1__0=PhaseMark("A", "t"), server__1=called
    )
    memory = replace(known(seen), only_ready=100 - RULES.timeout)
    cause = about_of(decide(seen, memory, Clocks(100, "new"), READY, RULES)).cause
    assert cause is not None
    assert (cause.also_lost, cause.hosts_lost) == ((1,), (called.host,))


def test_tables_that_differ_are_told_with_the_names_of_their_servers():
    called = Member("job", "B", "b", ("10.0.0.2",))
    first, second = PhaseMark("A", "t"), PhaseMark("B", "u")
    seen = view(GATHER, ready__0__0=first, ready__0__1=second, server__1=called)
    memory = replace(known(seen), only_ready=100 - RULES.timeout)
    cause = about_of(decide(seen, memory, Clocks(100, "new"), READY, RULES)).cause
    assert cause is not None
    assert cause.reason == "the rank tables differ: server 0 has t, server 1 (10.0.0.2) has u"


def test_a_server_that_was_told_to_stop_is_named():
    called = Member("job", "A", "a", host="pod job-0")
    seen = view(RUN, replace(ABOUT, roster=ROSTER), server__0=called)
    rules = replace(RULES, own=replace(RULES.own, host=called.host))
    cause = about_of(act(seen, STOPPED, rules=rules)).cause
    assert cause is not None
    assert cause.reason == "server 0 was told to stop (pod job-0)"


def test_the_server_whose_table_nobody_shares_is_blamed_whoever_writes_it():
    seen = view(
        GATHER,
        ready__0__0=PhaseMark("A", "t"),
        ready__0__1=PhaseMark("B", "u"),
        ready__0__2=PhaseMark("C", "t"),
        server__2=Member("job", "C", "c"),
        alive__2=Beat("C"),
    )
    rules = replace(RULES, servers=3)
    memory = replace(known(seen, rules=rules), only_ready=100 - RULES.timeout)
    written = decide(seen, memory, Clocks(100, "new"), READY, rules)
    cause = about_of(written).cause
    assert cause is not None
    assert cause.server == 1
    assert cause.reason == "the rank tables differ: server 0 has t, server 1 has u"


def test_a_failure_is_charged_and_waited_for_and_the_last_one_ends_the_job():
    running = view(RUN, replace(ABOUT, roster=ROSTER))
    failed = replace(RUNNING, ranks=Ranks.FAILED, verdict=CRASH)
    memory = known(running)
    first = decide(running, memory, Clocks(100, "new", 0.5), failed, RULES)
    assert (epoch_of(first).phase, epoch_of(first).generation) == (Phase.GATHER, 1)
    about = about_of(first)
    assert (about.delay, about.charges.spent) == (4.0, (-4.0,))
    assert about.cause == Cause(0, 3, "rank 0 exited with status 3", FAILURE)
    second = act(view(RUN, replace(about, roster=ROSTER)), failed)
    assert (epoch_of(second).phase, epoch_of(second).exit_code) == (Phase.END, 3)


def test_nothing_runs_before_the_delay_is_over():
    marks = {"ready__0__0": PhaseMark("A", "t"), "ready__0__1": PhaseMark("B", "t")}
    seen = view(GATHER, replace(ABOUT, delay=4.0), **marks)
    early = act(seen, later=3)
    assert early == WaitUntil(104.0, "all are ready; the restart is delayed for 4 s")
    assert epoch_of(act(seen, later=4)).phase is Phase.RUN


def test_whoever_exits_at_the_end_takes_its_keys_along():
    seen = view(GATHER)
    memory = replace(known(seen), ended=replace(RUN, phase=Phase.END, exit_code=3))
    found = decide(seen, memory, Clocks(100, "new"), READY, RULES)
    assert isinstance(found, Exit)
    assert found.farewell is not None
    assert set(deleted_by(found.farewell)) == {"server/0", "alive/0", "ready/0/0", "done/0/0"}
    read = Equals(records.EPOCH_KEY, encode(replace(RUN, phase=Phase.END, exit_code=3)))
    assert found.farewell.when == (read, *seen.unchanged("server/0"))


def test_a_given_index_that_is_held_is_waited_for_and_its_holder_is_named():
    newcomer = replace(RULES, own=Self("X", "x", index=1))
    waits = act(view(GATHER), rules=newcomer)
    assert isinstance(waits, RecordChange)
    assert list(put_by(waits)) == ["spare/X"]
    told = Spare("X", index=1)
    found = act(view(GATHER, spare__X=told), rules=newcomer)
    assert isinstance(found, WaitUntil)
    held = "the place of server 1 is held by another supervisor, on"
    assert found.reason == f"{held} the place b"
    named = view(GATHER, server__1=Member("job", "B", "b", host="node-b"), spare__X=told)
    assert getattr(act(named, rules=newcomer), "reason", "") == f"{held} node-b"
    free = without(view(GATHER), "server/1", "alive/1")
    taken = act(free, rules=newcomer)
    assert isinstance(taken, RecordChange)
    assert list(put_by(taken)) == ["server/1", "alive/1"]


def test_what_is_written_lives_as_long_as_the_job_and_an_alive_as_long_as_its_process():
    newcomer = replace(RULES, own=Self("X", "x", index=1))
    taken = act(without(view(GATHER), "server/1", "alive/1"), rules=newcomer)
    assert isinstance(taken, RecordChange)
    leases = {one.key: one.lease for one in taken.then if isinstance(one, Put)}
    assert leases == {"server/1": lease_of("job"), "alive/1": lease_of("X")}


def test_once_the_fence_has_fallen_no_answer_raises_it():
    late = 100 + RULES.patience
    memory = remember(known(view(RUN)), view(RUN), late, late, RULES)
    assert memory.contact == 100
    found = decide(view(RUN), memory, Clocks(late, "new"), RUNNING, RULES)
    assert isinstance(found, Exit)
    assert (found.exit_code, found.kills) == (69, True)


def test_a_member_whose_record_is_gone_too_is_lost_only_after_a_ttl():
    running = view(RUN, replace(ABOUT, roster=ROSTER))
    gone = without(running, "server/1", "alive/1")
    memory = replace(known(running, gone), cautious_until=0.0, started=0)
    assert isinstance(decide(gone, memory, Clocks(101, "new"), RUNNING, RULES), WaitUntil)
    memory = remember(memory, gone, 105, 105, RULES)
    memory = remember(memory, gone, 110, 110, RULES)
    memory = remember(memory, gone, 111, 111, RULES)
    written = decide(gone, memory, Clocks(111, "new"), RUNNING, RULES)
    assert epoch_of(written).generation == 1


def test_the_wait_for_ones_own_keys_is_not_renewed_by_every_read():
    stalled = without(view(RUN), "alive/0", "alive/1")
    memory = known(view(RUN), stalled)
    assert memory.cautious_until == 101 + RULES.ttl
    memory = remember(memory, stalled, 105, 105, RULES)
    assert memory.cautious_until == 101 + RULES.ttl
