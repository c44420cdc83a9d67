"""No step is invented: what else a job prints tells none, and nothing stalls the reader."""

from __future__ import annotations

import resource
from collections.abc import Callable
from time import process_time, thread_time

import pytest

from ascend_supervisor.probes.read_output import LOOK_BYTES
from ascend_supervisor.progress.reader import FORMATS, SIGNS, Reader
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.records import LONGEST, OutputRecords
from ascend_supervisor.progress.step_format import StepFormat
from tests.progress.logs import FRAMEWORKS, Framework, Log, tqdm
from tests.progress.other_output import lines

LINE = b" iteration        7/      10 | consumed samples: 1 | elapsed time per iteration (ms): 2 |"
MEGABYTE = 1 << 20


def readings_of(data: bytes, size: int = 32 * 1024) -> list[Reading]:
    reader = Reader()
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return [*(one for chunk in chunks for one in reader.read(chunk, 0)), *reader.end(0)]


@pytest.mark.parametrize("count", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_other_output_tells_no_step(count: int):
    assert readings_of(b"".join(lines(count))) == []


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.__name__)
def test_other_output_between_the_lines_of_a_training_changes_nothing(framework: Framework):
    log = Log()
    framework(log)
    plain, mixed, other = Reader(), Reader(), lines(1_000_000)
    for record, _ in log.records:
        expected = plain.read(record, 0)
        assert mixed.read(record, 0) == expected
        if record.endswith(b"\n") and not record.startswith(b"INFO >> "):
            for _ in range(3):
                assert mixed.read(next(other), 0) == []
            mixed.read(b"\n", 0)


def test_every_format_has_a_sign_by_which_its_lines_are_found():
    said = [example.text.encode() for one in FORMATS for example in one.examples]
    assert [text for text in said if not any(sign in text for sign in SIGNS)] == []


def cpu_seconds(act: Callable[[], object]) -> float:
    """The least that it takes of many times."""
    spent = []
    for _ in range(50):
        begin = thread_time()
        act()
        spent.append(thread_time() - begin)
    return min(spent)


@pytest.mark.parametrize("line", [b"x" * 99, b"10:00:00 INFO worker: got 1024 rows of the queue"])
def test_other_output_costs_less_than_a_search_for_each_sign(line: bytes):
    reader, chunk = Reader(), (line + b"\n") * (LOOK_BYTES // len(line))
    searches = cpu_seconds(lambda: [chunk.find(sign) for sign in SIGNS])
    assert cpu_seconds(lambda: reader.read(chunk, 0)) < 0.75 * searches


def test_a_line_of_a_gigabyte_takes_no_memory_and_hides_nothing_behind_it():
    reader, chunk = Reader(), b"iteration 5/9 | " * (MEGABYTE // 16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1024):
        assert reader.read(chunk, 0) == []
    (cut, after) = reader.read(b"\n" + LINE + b"\n", 0)
    assert (cut.step, after.step) == (5, 7)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def test_of_an_unfinished_record_its_beginning_is_kept():
    records = OutputRecords()
    for _ in range(100):
        assert records.take(b"x" * 1000) == []
    assert records.rest == b"x" * LONGEST
    assert records.take(b"\ny") == [b"x" * LONGEST]


def test_what_was_skipped_does_not_become_part_of_a_record():
    reader = Reader()
    assert reader.read(LINE[:30], 0) == []
    reader.skip()
    assert reader.read(LINE[30:] + b"\nepoch: 1 step: 5, lo", 0) == []
    assert [one.step for one in reader.read(b"ss is 0.1\n", 0)] == [5]


@pytest.mark.parametrize(
    "said",
    [
        f" iteration {10**30}/{10**31} | x |",
        f" iteration {10**12 + 1}/{10**12 + 2} | x |",
        f"epoch: 1 step: {'9' * 5000}, loss is 0.1",
        "epoch: nan step: nan, loss is nan",
        "epoch: 1 step: -5, loss is 0.1",
        "epoch: 1 step: 5.5, loss is 0.1",
        "step=0, skipped=0, lr=[1]",
        f"Epoch:[{10**12}/{10**12}], step:[{10**12}/{10**12}], loss: 1",
        f"{tqdm(5, 10, f'Epoch {10**40}: ')}",
        f"\r  5%|█| {10**30}/{10**31} [00:07<00:47,  7.57it/s]",
    ],
)
def test_numbers_that_cannot_be_true_are_no_steps(said: str):
    assert readings_of(said.encode() + b"\n") == []


def test_a_step_that_is_as_large_as_can_be_is_one():
    (reading,) = readings_of(f"iteration {10**12}/{10**12} |\n".encode())
    assert reading.step == 10**12


def test_a_loss_that_is_no_number_does_not_hide_the_step():
    for said in ("epoch: 1 step: 7, loss is nan", "iter 6: loss nan, time 45.67ms, mfu nan%"):
        assert [one.step for one in readings_of(said.encode())] == [7]


def test_colours_other_bytes_and_nul_do_not_hide_the_step():
    said = b"\x1b[31m\xff\xfe epo\0ch: 1 \x1b[1mstep: 5, loss\x1b[0m is 0.1 \xe7\xbb\n"
    assert [one.step for one in readings_of(said)] == [5]


def test_a_label_of_a_launcher_within_a_record_divides_it():
    bar = tqdm(94, 512, "Training Progress: ").strip("\r")
    said = f"[default0]:{bar}[default1]:[ERROR] at 64/512\n[1,0]<stdout>:step:95 - a/b:1\n"
    assert [one.step for one in readings_of(said.encode())] == [94, 95]


def test_a_rank_that_is_behind_another_tells_nothing_new():
    ranks = [(step - rank, rank) for step in range(3, 40) for rank in range(3)]
    said = "".join(f"[rank{rank}]: step: {step}  loss: 1\n" for step, rank in ranks)
    assert [one.step for one in readings_of(said.encode())] == [*range(3, 40)]


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_no_line_stalls_the_search_for_a_format(one: StepFormat):
    repeated = (" ", "1", "a b", "x=1 ", "epoch 1/2 ", "step 1/2 ", "━", one.sign)
    for example in one.examples:
        for end in range(0, len(example.text), 3):
            for text in repeated:
                before = process_time()
                one.find((example.text[:end] + text * LONGEST)[:LONGEST])
                assert process_time() - before < 0.1, (example.text[:end], text)
