"""What a start imports, and what comes after it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import ascend_supervisor
from tests.running import DEADLINE_SECONDS

IMPORTED = """
import sys
import ascend_supervisor.program.run
at_start = set(sys.modules)
from ascend_supervisor.workers.late_imports import import_late
import_late()
print((sorted(at_start), sorted(set(sys.modules) - at_start)))
"""
PACKAGE = Path(ascend_supervisor.__file__).parent


def modules_of(room: str) -> set[str]:
    return {
        f"ascend_supervisor.{room}.{path.stem}"
        for path in (PACKAGE / room).glob("*.py")
        if path.stem != "__init__"
    }


def test_a_start_imports_no_room_that_only_failures_and_hangs_need():
    found = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        stdout=subprocess.PIPE,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    at_start, late = map(set, ast.literal_eval(found.stdout.decode()))
    seldom = modules_of("stacks") | modules_of("evidence")
    assert at_start & seldom == set()
    assert seldom <= late
    assert at_start & (modules_of("metrics") | modules_of("alerts")) == set()
    assert at_start & {"watchfiles", "argparse", "difflib", "tomllib", "http.server"} == set()


def test_a_whole_job_imports_no_room_whose_option_is_not_given(tmp_path):
    words = ("--standalone", "1", "--log-dir", "log", "--work-dir", "work", "--", "true")
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ascend_supervisor", *words],
        cwd=tmp_path,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    imported = set(re.findall(r"ascend_supervisor\.\w+", found.stderr.decode()))
    assert "ascend_supervisor.workers" in imported
    optional = ("metrics", "alerts", "report", "collection", "trial")
    assert not imported & {f"ascend_supervisor.{room}" for room in optional}


def test_a_start_imports_no_launcher_but_the_one_that_is_used():
    asked = IMPORTED.replace(
        "import ascend_supervisor.program.run", "import ascend_supervisor.program.wiring"
    )
    found = subprocess.run(
        [sys.executable, "-c", asked], stdout=subprocess.PIPE, timeout=DEADLINE_SECONDS, check=True
    )
    at_start, _ = map(set, ast.literal_eval(found.stdout.decode()))
    methods = ("ranktable", "torchrun", "msrun", "mindspore", "mpirun", "tensorflow", "once")
    assert "ascend_supervisor.launchers.choice" in at_start
    assert not {f"ascend_supervisor.launchers.{method}" for method in methods} & at_start
