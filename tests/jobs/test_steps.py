"""What a job says of its training, from outside: steps, checkpoints, what is lost, the account."""

from __future__ import annotations

import json
import signal
import sys
import time

import pytest

from tests.ctl.calling import ctl
from tests.running import Running, python, seconds_between

RANK = """
import os, socket, sys, time
rank, generation = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
def say(text, end="\\n"):
    os.write(1, f"{text}{end}".encode())
def line(step, steps=60):
    say(f" iteration {step:8d}/{steps:8d} | consumed samples: 16 | elapsed time per iteration "
        f"(ms): 20.0 | lm loss: 2.382640E+00 |")
def saved(step):
    say(f"  successfully saved checkpoint from iteration {step:7d} to out")
def notify(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto(text.encode(), os.environ["NOTIFY_SOCKET"].replace("@", "\\0", 1))
"""
"""The beginning of ranks; their lines are Megatron's."""

FAILS_ONCE = f"""{RANK}
for step in range(1 if generation == 0 else 21, 61):
    time.sleep(0.02)
    if rank == 1:
        line(step)
    if step % 20 == 0 and rank == 0:
        saved(step)
    if generation == 0 and step == 35:
        time.sleep(0.2 if rank == 0 else 60)
        sys.exit(3)
time.sleep(0.2)
"""
NO_DELAY = ("--restart-delay", "0", "--release-delay", "0")


def sums(account: dict[str, float]) -> float:
    return round(sum(account.values()), 3)


def test_a_job_tells_its_steps_what_was_lost_and_what_its_time_went_to(supervised):
    job = supervised(
        *("--standalone", "2", "--restarts", "1", "--progress-interval", "0.2", *NO_DELAY),
        *python(FAILS_ONCE),
    )
    assert job.end() == 0
    first, second = job.all("training.started")
    assert (first["step"], first["rank"], first["format"]) == (1, 1, "megatron")
    assert (second["generation"], second["step"]) == (1, 21)
    assert first["start_seconds"] > 0
    progress = job.all("training.progress")
    assert len(progress) >= 2
    assert progress[-1]["step"] == progress[-1]["steps"] == 60
    assert progress[-1]["percent"] == 100.0
    assert [one["step"] for one in job.all("checkpoint.saved")] == [20, 40, 60]
    lost, done = job.all("generation.ended")
    assert (lost["step"], lost["steps_lost"]) == (35, 15)
    assert "at step 35, 15 steps lost" in lost["msg"]
    assert (done["step"], done["steps_lost"]) == (60, None)
    end = job.events[-1]
    assert end["account"]["trained_again"] > 0.2
    assert end["account"]["training"] > end["account"]["trained_again"]
    assert f"trained {end['percent_training']:g} %" in end["msg"]
    assert sums(end["account"]) == pytest.approx(duration(job), abs=0.3)


def duration(job: Running, last: Running | None = None) -> float:
    """Seconds from its first event to its last, or that of a later one, by their time stamps."""
    stamps = [event["ts"] for event in (job.events[0], (last or job).events[-1])]
    hours = [stamp[11:].rstrip("Z").split(":") for stamp in stamps]
    began, ended = (int(h) * 3600 + int(m) * 60 + float(s) for h, m, s in hours)
    return (ended - began) % 86400


def state(job: Running) -> dict[str, object]:
    (path,) = job.log_dir.glob("*-supervisor-*.json")
    known = json.loads(path.read_text())["progress"]
    assert isinstance(known, dict)
    return known


def test_the_state_file_has_the_progress(supervised):
    job = supervised("--standalone", "2", "--restarts", "1", *NO_DELAY, *python(FAILS_ONCE))
    assert job.end() == 0
    known = state(job)
    assert (known["step"], known["steps"], known["checkpoint_step"]) == (60, 60, 60)
    assert (known["rank"], known["format"]) == (1, "megatron")
    assert known["percent_training"] == pytest.approx(job.events[-1]["percent_training"], abs=5)


def test_a_message_counts_more_than_the_lines(supervised):
    source = f"""{RANK}
for step in range(1, 30):
    line(step, 1000)
    notify(f"X_STEP={{10 * step}}\\nX_STEPS=290\\nX_SECONDS=0.5\\nX_CHECKPOINT={{step}}")
    time.sleep(0.02)
"""
    job = supervised("--standalone", "1", *python(source))
    assert job.end() == 0
    known = state(job)
    assert (known["step"], known["steps"], known["format"]) == (290, 290, "notify")
    assert (known["seconds_per_step"], known["checkpoint_step"]) == (0.5, 29)


def test_off_reads_nothing(supervised):
    job = supervised("--standalone", "2", "--progress", "off", *python(FAILS_ONCE))
    assert job.end() == 3
    assert not [event for event in job.events if event["event"].startswith("training.")]
    assert job.events[-1]["account"] is None
    assert "trained" not in job.events[-1]["msg"]


STUCK = f"""{RANK}
for step in range(1, 11 if generation else 13):
    line(step)
    time.sleep(0.01)
time.sleep(0.1)
sys.exit(7)
"""


def test_generations_that_make_no_progress_end_the_job(supervised):
    job = supervised(
        "--standalone", "1", "--restarts", "9", "--min-uptime", "0", *NO_DELAY, *python(STUCK)
    )
    assert job.end() == 7
    assert len(job.all("generation.ended")) == 4
    assert job.events[-1]["msg"].count(
        "3 generations in a row came no further than step 12 "
        "(all ended at step 10): retrying will not help (--no-progress-limit)"
    )


def test_without_a_limit_they_do_not(supervised):
    job = supervised(
        *("--standalone", "1", "--restarts", "4", "--min-uptime", "0", *NO_DELAY),
        *("--no-progress-limit", "0", *python(STUCK)),
    )
    assert job.end() == 7
    assert len(job.all("generation.ended")) == 5


def test_a_later_start_in_the_same_place_goes_on_counting_them(supervised):
    options = ("--standalone", "1", "--min-uptime", "0", *NO_DELAY)
    first = supervised(*options, "--restarts", "1", *python(STUCK))
    assert first.end() == 7
    assert [one["no_progress"] for one in first.all("generation.ended")] == [[], [10]]
    killed = supervised(*options, *python(f"{RANK}\nwhile True: time.sleep(1)"))
    killed.wait_for("process.started")  # by then the file is written
    killed.send(signal.SIGKILL)
    killed.end()
    again = supervised(*options, "--restarts", "9", *python(STUCK.replace("if generation", "if 1")))
    assert again.end() == 7
    assert [one["no_progress"] for one in again.all("generation.ended")] == [[10, 10], [10] * 3]
    assert "3 generations in a row came no further than step 12" in again.events[-1]["msg"]
    further = supervised(*options, "--restarts", "9", *python(STUCK.replace("else 13", "else 30")))
    assert further.end() == 7
    told = [one["no_progress"] for one in further.all("generation.ended")]
    assert told == [[], [10], [10, 10], [10, 10, 10]]


def test_the_termination_log_has_the_account(supervised, tmp_path):
    log = tmp_path / "termination"
    job = supervised("--standalone", "2", "--termination-log", str(log), *python(FAILS_ONCE))
    assert job.end() == 3
    assert log.read_text().splitlines()[-1] == job.events[-1]["trained"]


def test_a_start_after_one_that_was_killed_tells_all_the_time_of_both(supervised):
    source = f"""{RANK}
for step in range(1, 1000):
    line(step)
    time.sleep(0.02)
"""
    killed = supervised("--standalone", "1", *python(source))
    killed.wait_for("training.started")
    time.sleep(1.0)
    killed.send(signal.SIGKILL)
    killed.end()
    again = supervised("--standalone", "1", *python(source.replace("1000", "11")))
    assert again.end() == 0
    account = again.events[-1]["account"]
    assert sums(account) == pytest.approx(duration(killed, again), abs=1.5)
    assert account["unknown"] > 1.0


def test_a_stop_during_the_back_off_leaves_no_time_out(supervised):
    fails = f"""{RANK}
for step in range(1, 20):
    line(step)
    time.sleep(0.02)
sys.exit(3)
"""
    backs_off = supervised(
        *(
            "--standalone",
            "1",
            "--restarts",
            "1",
            "--restart-delay",
            "1000h",
            "--restart-delay-max",
            "1000h",
        ),
        *python(fails),
    )
    scheduled = backs_off.wait_for("restart.scheduled")
    time.sleep(3.0)
    backs_off.send(signal.SIGTERM)
    assert backs_off.end() == 143
    end = backs_off.events[-1]
    waited = seconds_between(scheduled, end)
    assert end["account"]["restarting"] == pytest.approx(waited, abs=1.0)
    assert sums(end["account"]) == pytest.approx(duration(backs_off), abs=1.0)


def test_a_second_signal_to_stop_changes_no_category(supervised):
    deaf = f"""{RANK}
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for step in range(1, 1000):
    line(step)
    time.sleep(0.02)
"""
    job = supervised("--standalone", "1", "--grace", "2", *python(deaf))
    job.wait_for("training.started")
    for _ in range(2):
        job.send(signal.SIGTERM)
        first = job.wait_for("signal.received")
        time.sleep(0.5)
    assert job.end() == 143
    end = job.events[-1]
    assert end["account"]["stopping"] == pytest.approx(seconds_between(first, end), abs=1.0)
    assert sums(end["account"]) == pytest.approx(duration(job), abs=1.0)


TOLD = "for step in range(1, 16): print(f'step {step}/40 loss 1.0', flush=True)"
KILLED = f"{TOLD}\nimport os; os.kill(os.getpid(), 9)"
OF_40 = "the last step seen is 15 of 40"


def shown(job: Running) -> tuple[str, str]:
    """What status and report tell of it."""
    (path,) = job.log_dir.glob("*-supervisor-*.json")
    status = ctl("status", "--state-file", str(path)).stdout
    return status, ctl("report", "--text", "--state-file", str(path)).stdout


def test_a_killed_training_that_a_pipe_hides_is_told_by_the_end_the_status_and_the_report(
    supervised, tmp_path
):
    (tmp_path / "train.py").write_text(KILLED)
    job = supervised("--method", "once", "--", "sh", "-c", f"{sys.executable} train.py | cat")
    assert job.end() == 0
    end, (generation,) = job.events[-1], job.all("generation.ended")
    assert generation["outcome"] == "completed"
    assert end["reason"].startswith(f"the command ended with 0, but {OF_40}; a pipe in a script ")
    assert (end["level"], end["doubt"] in end["msg"]) == ("warning", True)
    status, report = shown(job)
    assert f"the command ended with 0, but {OF_40}; " in status
    assert "The job ended with exit code 0 after " in report
    assert f"What was seen: {OF_40}; " in report.replace("\n  ", " ")
    assert "What to do: If the training was to end there, as with early stopping" in report


def test_ranks_that_end_with_0_in_the_middle_are_told_and_no_script_is_blamed(supervised):
    job = supervised("--standalone", "2", *python(TOLD))
    assert job.end() == 0
    assert job.events[-1]["reason"] == f"every rank ended with 0, but {OF_40}"


@pytest.mark.parametrize("source", [TOLD.replace("/40", "/15"), TOLD.replace("/40", ":")], ids=str)
def test_ranks_that_end_with_0_at_their_last_step_or_at_any_of_an_unknown_number_are_not_doubted(
    supervised, source
):
    job = supervised("--standalone", "1", *python(source))
    assert job.end() == 0
    end = job.events[-1]
    assert (end["reason"], end["doubt"], end["level"]) == ("every rank ended with 0", None, "info")
    assert "What to do: Nothing." in shown(job)[1]
