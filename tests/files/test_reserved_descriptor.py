"""What must be written is written although no file descriptor is left."""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ascend_supervisor.files.regular_file import write_atomically
from ascend_supervisor.files.reserved_descriptor import (
    PAUSE_SECONDS,
    Reserve,
    free_descriptors,
)

FEW = 16


def null() -> int:
    return os.open(os.devnull, os.O_RDONLY)


@pytest.fixture
def no_more() -> Iterator[Callable[[], None]]:
    """Takes every descriptor that this process may still have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def take() -> None:
        free = null()
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + FEW, hard))
        with suppress(OSError):
            while True:
                taken.append(null())

    yield take
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for descriptor in taken:
        os.close(descriptor)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[], None]:
    return partial(write_atomically, tmp_path / "file", b"content", 0o600)


def test_where_none_is_left_there_is_one_every_time(no_more, write, tmp_path):
    reserve = Reserve()
    no_more()
    with pytest.raises(OSError, match="Too many open files"):
        write()
    for _ in range(3):
        reserve.ensure(write)
        assert (tmp_path / "file").stat().st_size == len(b"content")
        (tmp_path / "file").unlink()
    with pytest.raises(OSError, match="Too many open files"):
        null()


def test_how_many_are_free():
    before = free_descriptors()
    taken = null()
    assert free_descriptors() == before - 1
    os.close(taken)


def test_where_none_is_left_nobody_can_look_how_many_are_free(no_more):
    no_more()
    with pytest.raises(OSError, match="Too many open files"):
        free_descriptors()


def test_who_takes_it_in_between_is_waited_for(no_more, write, tmp_path):
    reserve = Reserve()
    took = threading.Event()

    def take_and_give_back() -> None:
        while not took.is_set():
            with suppress(OSError):
                descriptor = null()
                took.set()
        time.sleep(3 * PAUSE_SECONDS)
        os.close(descriptor)

    no_more()
    other = threading.Thread(target=take_and_give_back)
    other.start()
    while not took.is_set():
        reserve.ensure(write)
        (tmp_path / "file").unlink()
    other.join()
    reserve.ensure(write)


def test_what_fails_otherwise_is_not_tried_again():
    tries = []

    def refuse() -> None:
        tries.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        Reserve().ensure(refuse)
    assert len(tries) == 1
