"""NPUs that are missing; devices are files here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.doctor.check import ThisServer
from ascend_supervisor.doctor.npus import OF_THE_DRIVER, VISIBLE, devices
from tests.doctor.servers import only, server


def with_npus(root: Path, *numbers: int, **more: Any) -> ThisServer:
    found = server(root, **more)
    for name in (*(f"davinci{number}" for number in numbers), *OF_THE_DRIVER):
        (found.roots.dev / name).touch()
    return found


def test_fewer_npus_than_the_rank_table_says_are_unfit(tmp_path):
    row = only(devices(with_npus(tmp_path, 0, 1, 3, devices=(0, 1, 2, 3))))
    assert row.verdict == "unfit"
    assert row.found == f"3 NPUs in {tmp_path}/dev (0, 1, 3)"
    assert row.expected == "4, as the rank table says (0, 1, 2, 3)"


@pytest.mark.parametrize("wanted", [None, (0, 1), (4, 5), (0,)])
def test_as_many_npus_as_the_rank_table_says_are_fit(tmp_path, wanted):
    assert only(devices(with_npus(tmp_path, 0, 1, devices=wanted))).verdict == "fit"


def test_a_machine_without_npus_is_not_asked_for_any(tmp_path):
    assert list(devices(with_npus(tmp_path, devices=(0, 1)))) == []


def test_a_device_of_the_driver_that_is_missing_is_told(tmp_path):
    found = with_npus(tmp_path, 0)
    (found.roots.dev / "hisi_hdc").unlink()
    _, row = devices(found)
    assert (row.verdict, row.found) == ("warning", f"no hisi_hdc in {tmp_path}/dev")


@pytest.mark.parametrize(("told", "rows"), [("0,1", 1), ("1", 1), ("", 1), ("all", 1), ("0,2", 2)])
def test_visible_devices_beyond_those_of_the_container_are_told(tmp_path, told, rows):
    found = list(devices(with_npus(tmp_path, 4, 5, environ={VISIBLE: told})))
    assert len(found) == rows
    if rows > 1:
        assert found[-1].found == "'0,2', but 2 NPUs here"
        assert found[-1].remedy.endswith("CANN finds no device 2")
