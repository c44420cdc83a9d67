"""The archive as a stream: any tar reads it, whatever files have done meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from ascend_supervisor.collection.archive import Archive
from tests.collection.reading import members


def written(root: str = "job") -> tuple[bytearray, Archive]:
    out = bytearray()
    return out, Archive(out.extend, root)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 200_000])
def test_a_file_of_any_size_comes_out_as_it_went_in(size):
    content = bytes(range(256)) * (size // 256 + 1)
    out, archive = written()
    archive.add("a/b.txt", content[:size], 1.5)
    archive.add("c.txt", b"after", 2.0)
    archive.close()
    assert members(bytes(out)) == {"a/b.txt": content[:size], "c.txt": b"after"}


def test_a_file_that_shrinks_is_filled_with_zeros_and_one_that_grows_is_cut():
    out, archive = written()
    assert archive.add_pieces("shrank", iter([b"abc"]), 5, 0) == 2
    assert archive.add_pieces("grew", iter([b"abc", b"defgh"]), 5, 0) == 0
    archive.close()
    assert members(bytes(out)) == {"shrank": b"abc\0\0", "grew": b"abcde"}


def test_a_piece_more_is_not_asked_for():
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 1000

    out, archive = written()
    archive.add_pieces("endless", endless(), 2500, 0)
    archive.close()
    assert members(bytes(out)) == {"endless": b"x" * 2500}


def test_tar_itself_unpacks_long_and_foreign_names(tmp_path):
    out, archive = written("jöb")
    name = "d" * 150 + "/" + "ü" * 60 + ".txt"
    archive.add(name, b"content", 0)
    archive.close()
    (tmp_path / "x.tar.gz").write_bytes(out)
    subprocess.run(["tar", "xzf", "x.tar.gz"], cwd=tmp_path, check=True)
    assert (tmp_path / "jöb" / name).read_bytes() == b"content"
