"""Steps that begin anew in epochs which nobody names, and counts of which one is surer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

import pytest
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.training import TrainingProgress, TrainingStarted
from ascend_supervisor.outcome import Reached
from ascend_supervisor.progress.pattern_format import PatternFormat, format_of_pattern
from ascend_supervisor.progress.progress import ProgressStatus, SharedSteps
from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.record import TrainingRecord

MEGATRON = " iteration {:8d}/     100 | consumed samples: 16 | elapsed time per iteration (ms): 1 |"


def bar(step: int, total: int, label: str = "training: ") -> str:
    drawn = f"{step * 100 // total:3d}%|##   | {step}/{total} [00:07<00:47,  7.57it/s]"
    return f"\r{label}{drawn}"


def bars(label: str, steps: Iterable[int], total: int) -> list[str]:
    return [bar(step, total, label) for step in steps]


def lines(text: str, steps: Iterable[int]) -> list[str]:
    return [text.format(step) + "\n" for step in steps]


class Told:
    """A job whose ranks write one text in each second, each read by itself."""

    def __init__(self, *patterns: PatternFormat) -> None:
        self.record = TrainingRecord(0.0, 0.0)
        self.now = 0.0
        self.events: list[Event] = []
        self._patterns = patterns
        self._number = -1
        self._readers: dict[int, Reader] = {}

    def begin(self) -> None:
        self._number += 1
        self._readers = {}
        self.record.begin(self._number, self.now)

    def write(self, texts: Iterable[str], rank: int = 0) -> None:
        reader = self._readers.setdefault(rank, Reader(self._patterns))
        for text in texts:
            self.now += 1.0
            self.events += self.record.take(reader.read(text.encode(), self.now), rank)

    def end(self) -> Reached:
        self.record.stop(self.now, hung=False)
        return self.record.end(self.now)

    @property
    def known(self) -> ProgressStatus:
        status = self.record.status(self.now, datetime(2026, 11, 28, tzinfo=timezone.utc))
        assert status is not None
        return status

    def spent(self, category: str) -> float:
        return self.known.account[category]


def test_a_bar_that_begins_again_is_the_next_epoch_and_nothing_is_trained_again():
    job = Told()
    job.begin()
    for _ in range(3):
        job.write(bars("training: ", range(61), 60))
    assert (job.known.step, job.known.steps) == (180, None)
    assert (job.spent("trained_again"), job.spent("training")) == (0.0, job.now - 2.0)


def test_a_line_that_begins_again_without_a_total_is_a_step_of_the_next_epoch():
    job = Told()
    job.begin()
    for _ in range(3):
        job.write(lines("step {} | loss: 3.2", range(10, 200, 10)))
    assert (job.known.step, job.known.epoch, job.spent("trained_again")) == (190, 3, 0.0)


def test_generations_of_epochs_without_names_are_not_taken_for_stuck_or_trained_again():
    job = Told()
    reached = []
    for _ in range(4):
        job.begin()
        job.write(bars("training: ", [*range(61), *range(61), *range(20)], 60))
        reached.append(job.end())
    assert [one.step for one in reached] == [139] * 4
    assert [one.is_stuck for one in reached] == [False] * 4
    assert (job.spent("trained_again"), job.known.best_step) == (0.0, None)
    later = TrainingRecord(60.0, 0.0, job.known.kept)
    later.begin(0, 5.0)
    assert later.account(9.0).percent_training is not None
    later.take([Reading(9.0, "tqdm", 30, 60)], 0)
    assert not later.end(10.0).is_stuck


def test_a_generation_without_a_step_is_stuck_also_after_epochs_without_names():
    job = Told()
    job.begin()
    job.write(bars("training: ", [*range(61), *range(61)], 60))
    job.end()
    job.begin()
    assert job.end().is_stuck


def test_what_begins_again_after_a_resume_is_trained_again():
    job = Told()
    job.begin()
    job.write(bars("training: ", range(61), 60))
    job.write(["\n   Resuming from checkpoint checkpoint-40\n"])
    job.write(bars("training: ", range(41, 61), 60))
    assert (job.known.step, job.known.steps, job.spent("trained_again") > 10.0) == (60, 60, True)


def test_a_bar_that_begins_again_before_its_end_is_another_life_and_no_epoch():
    job = Told()
    job.begin()
    job.write(bars("training: ", [*range(58), *range(21, 50)], 100))
    assert (job.known.step, job.known.steps, job.spent("trained_again") > 10.0) == (49, 100, True)


FAILED = (
    "E1128 10:00:00.123000 4711 torch/distributed/elastic/multiprocessing/api.py:984] failed "
    "(exitcode: 1) local_rank: 0 (pid: 4713) of binary: /usr/bin/python3\n"
)
ENDED = (
    "W1128 10:00:00.123000 4711 torch/distributed/elastic/multiprocessing/api.py:1010] Sending "
    "process 4714 closing signal SIGTERM\n"
)


@pytest.mark.parametrize("said", [FAILED, ENDED], ids=["failed", "ended"])
def test_what_begins_again_after_torchrun_has_ended_its_workers_is_no_epoch(said):
    job = Told()
    job.begin()
    late = ["\n", said, bar(58, 60), bar(59, 60)]  # another worker is not gone yet
    job.write([*bars("training: ", range(58), 60), *late, *bars("training: ", range(1, 31), 60)])
    assert (job.known.step, job.known.steps, job.known.epoch) == (30, 60, None)
    assert job.spent("trained_again") > 20.0
    assert replace(job.end(), short=None) == Reached(step=30)
    job.begin()
    job.write(bars("training: ", range(1, 41), 60))
    assert replace(job.end(), short=None) == Reached(step=40, best=59, is_stuck=True)


def test_epochs_go_on_to_be_epochs_if_the_workers_of_torchrun_lost_no_step():
    job = Told()
    job.begin()
    job.write([*bars("training: ", range(300), 1000), "\n", FAILED])
    job.write(bars("training: ", [*range(300, 1001), *range(1, 100)], 1000))
    assert (job.known.step, job.spent("trained_again")) == (1099, 0.0)


def test_which_epoch_a_restart_of_torchrun_goes_on_with_is_not_known():
    job = Told()
    job.begin()
    job.write(bars("training: ", [*range(61), *range(61), *range(50)], 60))
    job.write(["\n", FAILED, *bars("training: ", range(30), 60)])
    assert job.spent("trained_again") == 0.0
    assert not job.end().is_stuck


@pytest.mark.parametrize("name", ["huggingface", "megatron"])
def test_what_counts_all_steps_begins_no_epoch_again(name):
    """Its total is that of the whole training, so it is another life, also if nobody says so."""
    job = Told()
    job.begin()
    if name == "megatron":
        job.write(lines(MEGATRON, [*range(1, 96), *range(1, 31)]))
    else:
        job.write(["***** Running training *****\n", "  Total optimization steps = 100\n"])
        job.write(bars("", [*range(1, 96), *range(1, 31)], 100))
    assert (job.known.step, job.known.steps, job.known.format) == (30, 100, name)
    assert job.spent("trained_again") > 20.0
    assert replace(job.end(), short=None) == Reached(step=30)


def test_steps_of_a_pattern_begin_again_in_each_epoch_that_it_names():
    job = Told(format_of_pattern(r"epoch (?P<epoch>\d+) at (?P<step>\d+)"))
    for begin in (0, 2):
        job.begin()
        for epoch in range(begin, 5):
            job.write(lines(f"epoch {epoch} at {{}}", range(1, 31)))
            assert (job.known.step, job.known.epoch) == (30, epoch)
        assert not job.end().is_stuck or begin
    assert job.spent("trained_again") == 89.0  # epochs 2 to 4, but the first step


def test_surer_lines_take_the_place_of_a_bar_that_was_read_before_in_the_same_output():
    job = Told()
    job.begin()
    job.write(bars("", range(1, 900), 1000))
    assert job.known.step == 899
    job.write(["\n", *lines(MEGATRON, range(1, 11)), bar(950, 1000, ""), "\n"])
    assert (job.known.step, job.known.steps, job.known.format) == (10, 100, "megatron")
    assert (job.spent("start"), job.spent("trained_again")) == (901.0, 0.0)
    starts = [one.format for one in job.events if isinstance(one, TrainingStarted)]
    assert starts == ["huggingface", "megatron"]
    assert job.end().best is None
    job.begin()
    job.write(lines(MEGATRON, range(1, 21)))
    assert replace(job.end(), short=None) == Reached(step=20, best=10)


def test_surer_lines_of_another_rank_take_the_place_of_a_bar():
    job = Told()
    job.begin()
    job.write(bars("training: ", range(1, 900), 1000))
    job.write(lines(MEGATRON, range(1, 11)), rank=7)
    job.write(bars("training: ", range(900, 990), 1000))
    assert (job.known.step, job.known.steps, job.known.rank) == (10, 100, 7)


def test_surer_lines_of_another_server_take_the_place_of_a_bar_here():
    job = Told()
    job.begin()
    job.write(bars("", range(1, 900), 1000))
    job.record.hear(SharedSteps(0, 15, 1.0, Reading(0.0, "megatron", 7, 100)), job.now)
    assert (job.known.step, job.known.rank) == (7, 15)
    job.write(bars("", range(900, 990), 1000))
    assert job.known.step == 7
    assert job.record.told(job.now) is None


def test_losses_tell_which_of_two_plain_bars_is_the_training():
    job = Told()
    job.begin()
    job.write(bars("", range(1, 1001), 1000))
    for step in range(1, 61):
        job.write([bar(step, 420, "")])
        if step % 10 == 0:
            job.write(["{'loss': '4.314', 'grad_norm': '1.382', 'epoch': '0.04'}\n"])
            job.write(bars("", range(1, 26), 25))  # an evaluation
    assert (job.known.step, job.known.steps) == (60, 420)


@pytest.mark.parametrize("is_line_first", [True, False])
def test_a_bar_that_counts_the_same_goes_on_to_be_read_beside_surer_lines(is_line_first):
    job = Told()
    job.begin()
    for step in range(1, 56):
        line = [f"\n[2023-04-28 06:59:46,878] [Rank 0] step={step}, skipped=8, lr=[1e-05]\n"]
        drawn = [bar(step, 100, "")]
        texts = line + drawn if is_line_first else drawn + line
        job.write(drawn if step % 10 else texts)
    assert job.known.step == 55
    assert job.spent("training") > 40.0


def test_the_total_of_a_bar_that_was_something_else_is_not_that_of_the_training():
    job = Told()
    job.begin()
    job.write(bars("", range(1, 30), 1000))
    job.write(["\n", *lines("step: {}  loss: 11.83506  grad_norm:  9.6669", range(1, 9))])
    assert (job.known.step, job.known.steps, job.known.format) == (8, None, "torchtitan")
    (last,) = [one for one in job.events[-1:] if isinstance(one, TrainingProgress)]
    assert last.percent is None
