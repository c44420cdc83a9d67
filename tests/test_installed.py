"""Which torchrun, or msrun, is called: real files in a PATH of the test's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_supervisor.launchers import Boot
from ascend_supervisor.launchers.choice import installed

MODULE = "torch.distributed.run"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Two environments: ``near`` with an interpreter, ``far`` with one and with torchrun."""
    for name in ("near/bin/python", "far/bin/python", "far/bin/torchrun"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


def called(command: str, path: str, **environ: str) -> tuple[str, ...]:
    boot = Boot((command, "train.py"), {"PATH": path, "HOME": "/nowhere", **environ}, 0)
    return installed(boot, "torchrun", MODULE)


def with_torch(prefix: Path) -> None:
    file = prefix / "torch" / "distributed" / "run.py"
    file.parent.mkdir(parents=True)
    file.touch()


def test_what_is_in_path_is_called(image):
    assert called("python", f"{image}/near/bin:{image}/far/bin") == ("torchrun",)


def test_that_of_the_interpreter_that_is_named_by_a_path_comes_first(image):
    (image / "near" / "bin" / "torchrun").symlink_to(image / "far" / "bin" / "torchrun")
    found = called(f"{image}/near/bin/python", f"{image}/far/bin")
    assert found == (f"{image}/near/bin/torchrun",)


@pytest.mark.parametrize("where", ["near/lib/python3.11/site-packages", "elsewhere"])
def test_the_module_of_the_interpreter_will_do(image, where):
    with_torch(image / where)
    path = f"{image}/near/bin"
    found = called("python", path, PYTHONPATH=f"{image}/elsewhere")
    assert found == ("python", "-m", MODULE)


def test_what_is_nowhere_is_called_by_its_name(image):
    assert called("python", f"{image}/near/bin") == ("torchrun",)
    assert called("train", f"{image}/near/bin") == ("torchrun",)
