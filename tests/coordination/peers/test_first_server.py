"""Which servers still need the etcd of the first one, and the end that it writes for them."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.records import (
    About,
    Beat,
    Cause,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Record,
    decode,
    encode,
)
from ascend_supervisor.coordination.agreement.view import View, view_of
from ascend_supervisor.coordination.peers.first_server import (
    end_without_us,
    may_finish,
    others_here,
    told_of,
)
from ascend_supervisor.etcd.values import Equals
from tests.coordination.agreement.store import put_by

LOST = Cause(0, 69, "server 0 was lost")
FAILED = Cause(1, 7, "rank 1 exited with status 7")


def view(phase: Phase, cause: Cause | None = None, **more: Record) -> View:
    """The first server and two others; ``more`` by key, with _ for /."""
    kept: dict[str, Record] = {
        records.EPOCH_KEY: Epoch("job", 3, phase, "old"),
        records.ABOUT_KEY: About("old", "settings", cause=cause),
        **{records.server_key(index): Member("job", f"inc-{index}", "place") for index in range(3)},
        **{records.alive_key(index): Beat(f"inc-{index}") for index in range(3)},
        **{name.replace("_", "/"): record for name, record in more.items()},
    }
    return view_of({name: encode(record) for name, record in kept.items()}, 1)


def test_others_need_it_while_they_have_keys() -> None:
    assert others_here(view(Phase.END), 0) == (1, 2)
    left = Member("job", "inc-1", "place", has_left=True)
    assert others_here(view(Phase.END, server_1=left), 0) == (1, 2)
    gone = view(Phase.END, server_1=left)
    values = {key: value for key, value in gone.values.items() if key != records.alive_key(1)}
    assert others_here(view_of(values, 1), 0) == (2,)


def test_a_wait_for_them_names_them_or_says_that_etcd_does_not_answer() -> None:
    assert told_of((2,)) == "the etcd of the job stays until server 2 has read the end of the job"
    assert "until servers 1, 2 have read" in told_of((1, 2))
    assert "does not answer" in told_of(None)


def test_a_job_that_goes_on_ends_when_its_first_server_leaves() -> None:
    act = end_without_us(view(Phase.GATHER, FAILED), 0, "new")
    assert act is not None
    epoch = decode(records.EPOCH_KEY, put_by(act)[records.EPOCH_KEY], Epoch)
    about = decode(records.ABOUT_KEY, put_by(act)[records.ABOUT_KEY], About)
    assert (epoch.phase, epoch.generation, epoch.exit_code) == (Phase.END, 3, 143)
    assert about.cause is not None
    assert about.cause.server == 0
    assert epoch.stamp == about.stamp == "new"
    assert act.when == (Equals(records.EPOCH_KEY, encode(Epoch("job", 3, Phase.GATHER, "old"))),)


def test_the_loss_of_the_first_server_stays_the_cause() -> None:
    act = end_without_us(view(Phase.GATHER, LOST), 0, "new")
    assert act is not None
    assert decode(records.EPOCH_KEY, put_by(act)[records.EPOCH_KEY], Epoch).exit_code == 69
    about = decode(records.ABOUT_KEY, put_by(act)[records.ABOUT_KEY], About)
    assert (about.cause, about.is_retryable) == (LOST, True)


def test_an_end_is_not_written_over() -> None:
    assert end_without_us(view(Phase.END), 0, "new") is None
    assert end_without_us(view_of({}, 1), 0, "new") is None


def test_ranks_of_others_may_finish_once_ours_have() -> None:
    assert not may_finish(view(Phase.RUN), 0)
    assert may_finish(view(Phase.RUN, done_3_0=PhaseMark("inc-0", "digest")), 0)
    assert not may_finish(view(Phase.GATHER, done_3_0=PhaseMark("inc-0", "digest")), 0)
