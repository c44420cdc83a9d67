"""Whose stacks are taken."""

from __future__ import annotations

from pathlib import PurePath

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.life import Life, Living, Plan, Start
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog
from ascend_supervisor.stacks.survey import subjects_of

LOG = PurePath("/log")


def life(*processes: Living) -> Life:
    found = standalone_table(8)
    plan = Plan(Start(0, found, 0, found.table.entries[0], 0), ())
    return Life(plan, list(processes))


def spec(rank: int | None = None, **more) -> ProcessSpec:
    return ProcessSpec(("train",), PurePath("/"), LOG / f"{rank}.txt", rank=rank, **more)


def test_ranks_come_in_their_order_before_processes_that_serve_them():
    server = Living(spec(title="sshd", significant=False), 7, Activity(0.0))
    ranks = [Living(spec(rank), 10 + rank, Activity(0.0)) for rank in (11, 2)]
    found = subjects_of(life(server, *ranks))
    assert [(one.name, one.rank, one.pid) for one in found] == [
        ("rank 2", 2, 12),
        ("rank 11", 11, 21),
        ("sshd", None, 7),
    ]
    assert [one.significant for one in found] == [True, True, False]


def test_of_a_rank_that_has_ended_no_pid_is_believed():
    (found,) = subjects_of(life(Living(spec(0), 10, Activity(0.0, has_ended=True))))
    assert found.pid is None


def test_the_workers_of_a_launcher_are_ranks_of_their_own():
    logs = (WorkerLog(LOG / "worker_4.log", 4, 0),)
    own, shared = Activity(0.0), Activity(0.0)
    launcher = Living(
        spec(title="msrun", workers=2, worker_logs=logs), 7, shared, (own,), {70: 4, 71: 5}
    )
    first, second, itself = subjects_of(life(launcher))
    assert (first.rank, first.pid, first.parent, first.log) == (4, 70, 7, "/log/worker_4.log")
    assert first.activity is own
    assert (second.rank, second.log) == (5, "/log/None.txt")
    assert second.activity is shared
    assert itself.name == "msrun"
    assert itself.others == {70, 71}
