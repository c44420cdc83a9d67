"""A log that grows and is rotated is read from its beginning, without a gap and in order."""

from __future__ import annotations

from ascend_supervisor.output.growing_logs import Tail


def more_of(tail: Tail) -> bytes:
    return b"".join(tail.more())


def test_files_that_were_rotated_between_two_looks_are_all_given_in_order(tmp_path):
    log = tmp_path / "log"
    log.write_text("first\n")
    tail = Tail(log)
    assert more_of(tail) == b"first\n"
    with log.open("a") as old:
        old.write("last of the old\n")
    for text in ("second", "third", "fourth"):
        for number in (3, 2, 1):
            older, newer = tmp_path / f"log.{number}", tmp_path / f"log.{number - 1}"
            newer = log if number == 1 else newer
            if newer.exists():
                newer.replace(older)
        log.write_text(f"{text}\n")
    assert more_of(tail) == b"last of the old\nsecond\nthird\nfourth\n"
    assert more_of(tail) == b""
    tail.close()


def test_a_new_file_counts_only_when_its_writer_has_come_to_it(tmp_path):
    log = tmp_path / "log"
    tail = Tail(log)
    with log.open("w", buffering=1) as old:
        old.write("first\n")
        assert more_of(tail) == b"first\n"
        log.rename(tmp_path / "log-20260101")
        log.touch()
        old.write("still in the old\n")
        assert more_of(tail) == b"still in the old\n"
    log.write_text("in the new\n")
    assert more_of(tail) == b"in the new\n"
    tail.close()


def test_a_log_that_is_truncated_in_place_is_read_from_its_new_beginning(tmp_path):
    log = tmp_path / "log"
    log.write_text("a long line before\n")
    tail = Tail(log)
    assert more_of(tail) == b"a long line before\n"
    log.write_text("after\n")
    assert more_of(tail) == b"after\n"
    tail.close()


def test_a_log_that_is_not_there_yet_is_read_when_it_is(tmp_path):
    tail = Tail(tmp_path / "log")
    assert more_of(tail) == b""
    assert isinstance(tail.trouble, FileNotFoundError)
    (tmp_path / "log").write_text("here\n")
    assert more_of(tail) == b"here\n"
    assert tail.trouble is None
    tail.close()
