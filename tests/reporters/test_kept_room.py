"""Room that is kept for one last content: nobody else gets it, and nothing is left of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ascend_supervisor.files.regular_file import remove_remnants, write_atomically
from ascend_supervisor.reporters.state_file import ROOM_BYTES, KeptRoom, is_full

FULL = os.strerror(errno.ENOSPC)
LAST = b"the last words\n"


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if not is_full(error):
                raise


def test_the_last_content_is_written_to_a_full_disk_whole_and_with_its_mode(small_disk):
    path = small_disk / "state.json"
    path.write_bytes(b"earlier words")
    room = KeptRoom(path)
    room.keep(1000)
    fill(small_disk)
    with pytest.raises(OSError, match=FULL):
        write_atomically(path, LAST, 0o644)
    room.write(LAST, 0o644)
    assert path.read_bytes() == LAST
    assert path.stat().st_mode & 0o777 == 0o644
    assert sorted(one.name for one in small_disk.iterdir()) == ["ballast", "state.json"]


def test_what_does_not_fit_leaves_the_earlier_content(small_disk):
    path = small_disk / "state.json"
    path.write_bytes(b"earlier words")
    room = KeptRoom(path)
    room.keep(1000)
    fill(small_disk)
    with pytest.raises(OSError, match=FULL):
        room.write(bytes(2 * ROOM_BYTES), 0o644)
    assert path.read_bytes() == b"earlier words"


def test_on_a_disk_that_is_full_from_the_beginning_nothing_is_left_and_room_is_found_later(
    small_disk,
):
    path = small_disk / "state.json"
    fill(small_disk)
    room = KeptRoom(path)
    room.keep(1000)
    assert [one.name for one in small_disk.iterdir()] == ["ballast"]
    with pytest.raises(OSError, match=FULL):
        room.write(LAST, 0o644)
    (small_disk / "ballast").unlink()
    room.keep(1000)
    fill(small_disk)
    room.write(LAST, 0o644)
    assert path.read_bytes() == LAST


def test_room_that_is_given_up_is_gone_and_that_of_a_killed_writer_is_a_remnant(tmp_path):
    path = tmp_path / "state.json"
    for leave in (KeptRoom.give_up, lambda _: remove_remnants(path)):
        room = KeptRoom(path)
        room.keep(1000)
        room.keep(1000)
        assert sum(one.stat().st_size for one in tmp_path.iterdir()) == ROOM_BYTES
        leave(room)
        assert not list(tmp_path.iterdir())


def test_the_room_grows_with_the_content(small_disk):
    path = small_disk / "state.json"
    room = KeptRoom(path)
    for size in (1000, 2 * ROOM_BYTES, 1000):
        room.keep(size)
    fill(small_disk)
    room.write(bytes(4 * ROOM_BYTES), 0o644)
    assert path.stat().st_size == 4 * ROOM_BYTES
