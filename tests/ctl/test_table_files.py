"""What is said of a rank table, and what it is converted to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import rank_tables
from tests.ctl.calling import ctl, refused
from tests.rank_tables import COMPLETED, INITIALIZING, LAB, TEMPLATE_1


def file_of(tmp_path: Path, name: str) -> str:
    path = tmp_path / f"{name}.json"
    path.write_bytes(rank_tables.data(name))
    return str(path)


@pytest.mark.parametrize("name", COMPLETED)
def test_check_table_tells_what_the_table_says(tmp_path, name):
    path = file_of(tmp_path, name)
    found = ctl("check-table", path)
    table = rank_tables.table(name)
    warned = [f"the rank table {path}: {warning}" for warning in table.warnings]
    assert found.returncode == 0
    assert len(found.stderr.splitlines()) == len(warned)
    assert all(warning in found.stderr for warning in warned)
    assert f"format      {table.format.value}\n" in found.stdout
    assert f"world size  {table.world_size}\n" in found.stdout
    assert f"servers     {table.servers}\n" in found.stdout
    rows = found.stdout.partition("NODE RANK")[2].splitlines()[1:]
    assert len(rows) == len(table.entries)
    assert all(entry.label in rows[at] for at, entry in enumerate(table.entries) if entry.server_id)


def many_servers(servers: int) -> bytes:
    devices = [
        {"device_id": "0", "device_ip": f"10.1.0.{n}", "rank_id": str(n)} for n in range(servers)
    ]
    listed = [{"server_id": f"10.0.0.{n}", "device": [device]} for n, device in enumerate(devices)]
    head = {"status": "completed", "version": "1.0", "server_count": str(servers)}
    return json.dumps(head | {"server_list": listed}).encode()


def test_check_table_shows_twenty_entries_and_counts_the_others(tmp_path):
    (tmp_path / "table").write_bytes(many_servers(23))
    lines = ctl("check-table", str(tmp_path / "table")).stdout.splitlines()
    assert lines[-2].split()[:2] == ["19", "10.0.0.19"]
    assert lines[-1] == "and 3 more"


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_table_that_is_not_completed_gives_75(tmp_path, command):
    path = file_of(tmp_path, INITIALIZING)
    assert f"{path} is not ready: status is 'initializing'" in refused(75, command, path)


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_table_that_is_wrong_gives_65_and_the_place(tmp_path, command):
    wrong = rank_tables.document(TEMPLATE_1)
    del wrong["server_list"][1]["device"][2]["rank_id"]
    path = tmp_path / "table"
    path.write_text(json.dumps(wrong))
    assert f"{path}: $.server_list[1].device[2]: " in refused(65, command, str(path))


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_table_that_cannot_be_read_gives_64(tmp_path, command):
    assert "No such file" in refused(64, command, str(tmp_path / "none"))
    assert "name too long" in refused(64, command, "x" * 5000)


@pytest.mark.parametrize("name", COMPLETED)
def test_convert_gives_what_the_ranks_are_handed(tmp_path, name):
    path = file_of(tmp_path, name)
    document = rank_tables.table(name).document
    assert ctl("convert", path).stdout.encode() == document
    for target in (tmp_path / "made" / "new", Path(path)):
        found = ctl("convert", path, "-o", str(target))
        assert (found.returncode, found.stdout) == (0, "")
        assert target.read_bytes() == document
        assert target.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", COMPLETED)
def test_convert_says_where_nothing_is_converted(tmp_path, name):
    path = file_of(tmp_path, name)
    stays = rank_tables.table(name).document == rank_tables.data(name)
    told = f"the rank table {path} needs no conversion ({rank_tables.table(name).format.value}); "
    for options in ((), ("-o", str(tmp_path / "out"))):
        found = ctl("convert", path, *options)
        assert found.stderr.startswith(f"ascend-supervisorctl: {told}" if stays else "")
        assert bool(found.stderr) == stays
    converted = ctl("convert", str(tmp_path / "out")).stderr  # what it was converted to
    assert "needs no conversion" in converted


@pytest.mark.parametrize("name", ["jobstart_hccl.json", "hccl.json"])
def test_a_directory_is_searched_as_rank_table_file_is(tmp_path, name):
    (tmp_path / name).write_bytes(rank_tables.data(LAB))
    (tmp_path / "other.json").write_text("{}")
    assert "format      lab" in ctl("check-table", str(tmp_path)).stdout
    document = rank_tables.table(LAB).document
    assert ctl("convert", str(tmp_path)).stdout.encode() == document


def test_of_two_files_in_a_directory_the_usual_one_is_read(tmp_path):
    (tmp_path / "jobstart_hccl.json").write_bytes(rank_tables.data(LAB))
    (tmp_path / "hccl.json").write_bytes(rank_tables.data(TEMPLATE_1))
    assert "format      lab" in ctl("check-table", str(tmp_path)).stdout


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_directory_without_a_table_is_refused_with_what_it_holds(tmp_path, command):
    assert "found nothing; name the file" in refused(64, command, str(tmp_path))
    for name in ("b.json", "a.json"):
        (tmp_path / name).touch()
    sentence = refused(64, command, str(tmp_path))
    assert "expected jobstart_hccl.json or hccl.json in it, found a.json, b.json;" in sentence


def test_convert_replaces_what_a_link_leads_to(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    assert ctl("convert", file_of(tmp_path, LAB), "-o", str(tmp_path / "link")).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == rank_tables.table(LAB).document


def test_an_output_that_cannot_be_written_gives_73_and_is_left_alone(tmp_path):
    table = file_of(tmp_path, LAB)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out").symlink_to("/dev/stdout")
    targets = ["/proc/none", table + "/below", str(tmp_path), str(tmp_path / "loop"), os.devnull]
    for target in (*targets, "/dev/stdout", "/dev/fd/1"):
        assert target in refused(73, "convert", table, "-o", target)
    assert Path(table).read_bytes() == rank_tables.data(LAB)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["loop", "out", Path(table).name]
    )


def test_a_refused_table_leaves_the_output_as_it_was(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    refused(75, "convert", file_of(tmp_path, INITIALIZING), "-o", str(target))
    assert target.read_text() == "old"


@pytest.mark.parametrize("command", ["check-table", "convert"])
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (Path.mkdir, "a directory; name the rank table itself"),
        (os.mkfifo, "a pipe, a socket or a device; name the rank table itself"),
        (
            lambda path: path.symlink_to("no"),
            "a link to no, which does not exist; correct the link",
        ),
    ],
    ids=["directory", "pipe", "link"],
)
def test_what_is_in_place_of_the_file_is_told(tmp_path, command, make, found):
    path = tmp_path / "hccl.json"
    make(path)
    sentence = refused(64, command, str(tmp_path))
    assert sentence.endswith(f" {path}: expected a file, found {found}\n")
