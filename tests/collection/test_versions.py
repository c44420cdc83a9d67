"""Versions, as files and packages show them; nothing of a package is imported."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ascend_supervisor.collection.versions import add_versions
from tests.collection.collecting import Collecting


def test_the_files_of_cann_are_there_with_their_places_each_once(tmp_path):
    ascend = tmp_path / "Ascend"
    files = (
        "driver/version.info",
        "ascend-toolkit/8.0/x86_64-linux/ascend_toolkit_install.info",
        "ascend-toolkit/8.0/version.cfg",
    )
    for name in files:
        (ascend / name).parent.mkdir(parents=True, exist_ok=True)
        (ascend / name).write_text(name)
    (ascend / "ascend-toolkit" / "latest").symlink_to("8.0")
    case = Collecting()
    home = str(ascend / "ascend-toolkit" / "latest")
    add_versions(case.collector, {"ASCEND_HOME_PATH": home}, sys.executable, ascend)
    found = {name: content.decode() for name, content in case.end().items() if "Ascend" in name}
    assert found == {f"versions{ascend}/{name}": name for name in files}


def test_packages_are_those_that_the_ranks_see_and_are_not_imported(tmp_path):
    package = tmp_path / "torch_npu-2.1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.1.0\n")
    (tmp_path / "torch_npu.py").write_text("raise SystemExit('it was imported')")
    case = Collecting()
    ranks = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    add_versions(case.collector, ranks, sys.executable, tmp_path / "absent")
    found = case.end()
    assert b"\ntorch_npu 2.1.0\n" in found["versions/python.txt"]
    assert found["versions/python.txt"].startswith(b"Python 3.")
    assert b"\nmsgspec " in found["versions/ascend-supervisorctl.txt"]
    assert "no file tells them in" in case.left_out["the versions of CANN"]


def test_an_interpreter_that_hangs_or_is_none_is_told(tmp_path):
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    case = Collecting()
    began = time.monotonic()
    add_versions(case.collector, {}, str(hangs), Path("/absent"))
    assert time.monotonic() - began < 20
    add_versions(case.collector, {"PATH": "/absent"}, "python3", Path("/absent"))
    assert "has not ended within 5 s" in case.left_out[f"the packages of {hangs}"]
    assert case.left_out["the packages of python3"] == "there is no such program"
    case.end()
