"""Steps, checkpoints and resumes in what a process writes."""

from __future__ import annotations

from ascend_supervisor.progress.reader import Reader
from ascend_supervisor.progress.reading import Reading


def steps_of(*chunks: bytes) -> list[tuple[int | None, int | None]]:
    reader = Reader()
    readings = [one for at, chunk in enumerate(chunks) for one in reader.read(chunk, at)]
    return [(one.step, one.steps) for one in (*readings, *reader.end(len(chunks)))]


def bar(count: int, total: int, label: str = "") -> bytes:
    return (
        f"\r{label}{count * 100 // total:3}%|█▍  | {count}/{total} [00:07<00:47,  7.5it/s]".encode()
    )


def test_a_line_of_a_known_format_is_read_when_it_is_complete():
    reader = Reader()
    line = b" iteration      182/  250000 | lr: 1 | elapsed time per iteration (ms): 9"
    assert reader.read(line, 1.0) == []
    (reading,) = reader.read(b"000.0 |\n", 2.0)
    assert reading == Reading(2.0, "megatron", step=182, steps=250000, seconds=9.0)


def test_a_line_that_nothing_ended_is_read_at_the_end():
    assert steps_of(b"epoch: 3 step: 53, loss is 0.71") == [(53, None)]


def test_a_bar_is_read_as_it_is_drawn_but_not_before_it_is_whole():
    reader = Reader()
    for count in (1, 2):
        assert reader.read(bar(count, 420), 0.0) == []
    drawn = bar(3, 420)
    assert reader.read(drawn[:-4], 1.0) == []
    assert [(one.step, one.at) for one in reader.read(drawn[-4:], 2.0)] == [(1, 0.0), (3, 2.0)]


def test_a_plain_bar_is_believed_after_three_growing_values_of_one_total():
    counts = [bar(0, 420), bar(1, 420), bar(1, 420), bar(2, 421), bar(2, 420), bar(5, 420)]
    assert steps_of(*counts, bar(9, 420), bar(9, 420)) == [(1, 420), (5, 420), (9, 420)]


def test_what_had_grown_before_a_count_fell_back_is_not_where_it_began():
    counts = [bar(7, 420), bar(8, 420), bar(2, 420), bar(3, 420), bar(4, 420)]
    assert steps_of(*counts) == [(2, 420), (4, 420)]


def test_a_bar_of_other_work_is_never_believed():
    for label in ("Map: ", "Evaluating: ", "Loading checkpoint shards: ", "Tokenizing train: "):
        assert steps_of(*(bar(count, 9, label) for count in range(10))) == []


def test_a_bar_without_a_rate_is_where_the_training_resumed_and_no_step_of_it():
    drawn = b"\rSteps:  67%|##  | 40/60 [00:00<?, ?it/s]"
    announced = b"  Total optimization steps = 60\n"
    assert steps_of(announced, drawn, drawn, bar(41, 60, "Steps: "))[1:] == [(41, 60)]


def test_a_plain_bar_below_another_is_an_evaluation():
    training = b"".join(bar(count, 9) for count in range(5))
    evaluation = b"".join(b"\n" + bar(count, 4) + b"\x1b[A" for count in range(5))
    assert steps_of(training, evaluation, bar(5, 9)) == [(1, 9), (3, 9), (4, 9), (5, 9)]


def test_a_bar_with_another_below_it_each_time_counts_epochs_and_no_steps():
    inner = b"".join(b"\n" + bar(count, 30) + b"\x1b[A" for count in range(31))
    assert steps_of(*(bar(epoch, 9) + inner for epoch in range(10))) == []
