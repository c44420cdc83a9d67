"""npu-smi and hccn_tool: real small programs that answer, hang, fail, or are not there."""

from __future__ import annotations

import os
from pathlib import Path

from ascend_supervisor.collection.npu import (
    NAME,
    OF_A_DEVICE,
    OF_A_PORT,
    add_npu,
    commands,
    devices_here,
)
from tests.collection.collecting import Collecting


def program(directory: Path, name: str, script: str) -> dict[str, str]:
    """The environment with this program on PATH."""
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def test_each_command_stands_above_its_answer_as_ascend_fd_reads_it(tmp_path):
    program(tmp_path, "hccn_tool", 'echo "answer $*"; echo "TLS SWITCH (0)"; echo "tls switch[0]"')
    environ = program(tmp_path, "npu-smi", 'echo "smi $*"')
    version = tmp_path / "version.info"
    version.write_text("Version=24.1.rc1\n")
    case = Collecting()
    add_npu(case.collector, environ, [0, 5], [version, tmp_path / "absent"])
    text = case.end()[NAME].decode()
    assert text.startswith("Datetime: 20")
    assert "/usr/local/bin/npu-smi info\nsmi info\n" in text
    assert "/usr/local/bin/npu-smi info -i 5 -t ecc\nsmi info -i 5 -t ecc\n" in text
    hccn = "/usr/local/Ascend/driver/tools/hccn_tool"
    assert f"{hccn} -i 5 -link -g\nanswer -i 5 -link -g\n" in text
    assert f"{hccn} -i 0 -tls -g | grep switch\ntls switch[0]\n" in text
    assert text.endswith(f"\n\ncat {version}\nVersion=24.1.rc1\n")
    lines = [line for line in text.splitlines() if line.startswith("/usr/local")]
    assert len(lines) == 3 + 2 * (len(OF_A_DEVICE) + len(OF_A_PORT))
    assert case.left_out == {}


def test_a_program_that_hangs_costs_its_time_once_and_the_other_is_asked(tmp_path):
    program(tmp_path, "hccn_tool", "echo here")
    environ = program(tmp_path, "npu-smi", "echo begun; exec sleep 600")
    case = Collecting()
    add_npu(case.collector, environ, [0])
    text = case.end()[NAME].decode()
    assert text.count("it was killed") == 1
    assert "npu-smi info\nbegun\n[it was killed: it has not ended within 5 s]\n" in text
    assert "-i 0 -ip -g\nhere\n" in text
    (why,) = case.left_out.values()
    assert "was not asked for more" in why


def test_without_the_programs_it_says_so(tmp_path):
    case = Collecting()
    add_npu(case.collector, {"PATH": str(tmp_path)}, [0])
    assert case.end() == {}
    assert case.left_out.keys() == {"npu-smi", "hccn_tool"}


def test_devices_are_known_by_their_files(tmp_path):
    for name in ("davinci10", "davinci2", "davinci_manager", "null"):
        (tmp_path / name).touch()
    assert devices_here(tmp_path) == [2, 10]
    assert devices_here(tmp_path / "absent") == []
    assert len(list(commands([]))) == 3
