"""The digest of a directory: of what it holds, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ascend_supervisor.doctor.facts_of_server import TooMuch, directory_digest


@pytest.fixture
def code(tmp_path):
    """A directory with a script, a package and a link."""
    root = tmp_path / "code"
    (root / "model").mkdir(parents=True)
    (root / "train.py").write_text("import model\n")
    (root / "model" / "__init__.py").write_text("")
    (root / "latest").symlink_to("model")
    return root


def test_the_same_files_elsewhere_have_the_same_digest(code, tmp_path):
    before = directory_digest(code)
    code.rename(tmp_path / "elsewhere")
    assert directory_digest(tmp_path / "elsewhere") == before


@pytest.mark.parametrize("name", [".git", "__pycache__", "model/__pycache__"])
def test_what_git_and_python_keep_does_not_count(code, name):
    before = directory_digest(code)
    (code / name).mkdir()
    (code / name / "file").write_text("x")
    assert directory_digest(code) == before


def _new_link(code: Path) -> None:
    (code / "latest").unlink()
    (code / "latest").symlink_to("train.py")


@pytest.mark.parametrize(
    "change",
    [
        lambda code: (code / "train.py").write_text("import mode1\n"),
        lambda code: (code / "train.py").rename(code / "train2.py"),
        lambda code: (code / "model" / "more.py").write_text(""),
        lambda code: (code / "model" / "__init__.py").unlink(),
        _new_link,
    ],
)
def test_another_content_name_file_or_link_gives_another_digest(code, change):
    before = directory_digest(code)
    change(code)
    assert directory_digest(code) != before


def test_a_pipe_is_not_read(code):
    os.mkfifo(code / "pipe")
    assert directory_digest(code)


def test_more_than_is_read_is_told(code):
    with pytest.raises(TooMuch, match=r"^it has more than 2 files$"):
        directory_digest(code, most_files=2)
    with pytest.raises(TooMuch, match=r"^it has more than 9.31e-09 GiB$"):
        directory_digest(code, most_bytes=10)


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        directory_digest(tmp_path / "nowhere")
