"""What is built can be installed: everywhere from an index, and without one as a directory."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.readme.commands import MINDSPORE, block, instructions
from tests.test_docs import page

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "conf" / "requirements.txt"
BUSYBOX = shutil.which("busybox")

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A directory with the wheel and the source distribution of this tree."""
    directory: Path = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(directory), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return directory


@pytest.fixture(scope="module")
def portable(built, tmp_path_factory) -> Path:
    if shutil.which("apt-get") is None:
        pytest.skip("needs apt-get, which fetches Debian's Python")
    directory: Path = tmp_path_factory.mktemp("portable") / "made"
    command = [ROOT / "scripts" / "portable", wheel(built), directory]
    subprocess.run(command, check=True, capture_output=True)
    return directory


def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


def test_the_wheel_brings_the_settings_and_the_sources_bring_the_pages(built):
    names = zipfile.ZipFile(wheel(built)).namelist()
    assert any(name.endswith("share/ascend-supervisor/supervisor.toml") for name in names)
    report = {"ascend_supervisor/report/page.html", "ascend_supervisor/report/chart.css"}
    assert report - {*names} == set()
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as sources:
        held = {name.partition("/")[2] for name in sources.getnames()}
    there = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "conf", "docs"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert set(there) - held == set()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_python_and_machine_has_wheels_of_what_is_needed(tmp_path, python, machine):
    """With the hashes of conf/requirements.txt; nothing is compiled in an image."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--require-hashes", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", python, "--target", str(tmp_path)]
    for platform in ("manylinux2014", "manylinux_2_28"):
        command += ["--platform", f"{platform}_{machine}"]
    done = subprocess.run(
        [*command, "-r", REQUIREMENTS], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_requirements_are_whole():
    """Without a package that is missing, pip would take it from the index without a hash."""
    with_hash = re.findall(r"^([\w-]+)==", REQUIREMENTS.read_text(), re.MULTILINE)
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed"]
    command += ["--report", "-", f"{ROOT}[peers,hang]"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    needed = {one["metadata"]["name"].lower() for one in json.loads(done.stdout)["install"]}
    assert {name.replace("_", "-") for name in needed} - {"ascend-supervisor"} <= set(with_hash)


def test_the_wheel_is_installed_as_the_pages_say(built, tmp_path):
    """In an image, and in a virtual environment; its pages are found where it is activated."""
    shutil.copytree(built, tmp_path / "dist")
    shutil.copytree(built, tmp_path / "tmp")
    place = f"{tmp_path}/opt/ascend-supervisor"
    linked = tmp_path / "usr" / "local" / "bin"
    linked.mkdir(parents=True)
    environ = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}"}

    def shell(script: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env=environ,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    image = re.sub(
        r"(?<!\S)/(?=(?:opt|tmp|usr)/)", f"{tmp_path}/", dict(instructions(block(MINDSPORE)))["RUN"]
    )
    shell(image.replace("python3.10", shlex.quote(sys.executable)))
    assert shell(f"{linked}/ascend-supervisor --version").startswith("ascend_supervisor ")
    assert shell(f"{linked}/ascend-supervisorctl --version").startswith("ascend-supervisorctl ")
    shell("pip uninstall --yes ascend-supervisor")
    _, install = block("make wheel\n").splitlines()
    shell(install)
    assert shell("command -v ascend-supervisorctl") == f"{place}/bin/ascend-supervisorctl\n"
    for name in ("ascend-supervisor", "ascend-supervisorctl"):
        assert f"`man {name}`" in page("docs/install.md")
        assert Path(f"{place}/share/man/man1/{name}.1").exists()
        assert shutil.which("man") is None or shell(f"man -w {name}").startswith(f"{place}/share/")
        assert Path(f"{place}/share/bash-completion/completions/{name}").exists()
    assert Path(f"{place}/share/zsh/site-functions/_ascend-supervisor").exists()


@pytest.fixture
def bare_image(portable, tmp_path) -> Path:
    """A root directory with a shell and the portable directory: no Python, not even a libc."""
    if os.geteuid() or BUSYBOX is None:
        pytest.skip("needs root, and busybox-static")
    image: Path = tmp_path / "image"
    for name in ("bin", "proc", "dev", "tmp"):
        (image / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, image / "bin" / "busybox")
    for name in ("sh", "sleep", "env", "kill", "cat"):
        (image / "bin" / name).symlink_to("busybox")
    shutil.copytree(portable, image / "opt" / "ascend-supervisor", copy_function=os.link)
    return image


def in_image(image: Path, script: str) -> subprocess.CompletedProcess[str]:
    """A container's main process: PID 1 of a PID namespace of its own."""
    mounts = f"mount -t proc proc {image}/proc && mount --bind /dev {image}/dev"
    into_image = f'{mounts} && exec chroot {image} /bin/sh -c "$0"'
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", into_image, script],
        env={"PATH": "/bin:/usr/bin:/sbin:/usr/sbin", "PYTHONPATH": "/bad", "PYTHONHOME": "/bad"},
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )


RANK = "echo rank $RANK runs; [ $RANK = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3"


@pytest.mark.parametrize("begins", ["exec ", ""])
def test_an_image_without_python_is_supervised_by_the_portable_directory(bare_image, begins):
    """As PID 1 and below a shell, which is when there may be a guardian."""
    bin_ = "/opt/ascend-supervisor/bin"
    options = "--standalone 2 --restarts 1 --restart-delay 0 --log-dir /tmp/logs --console json"
    done = in_image(
        bare_image,
        f"cd /tmp; {begins}{bin_}/ascend-supervisor {options} -- sh -c '{RANK}; env >/tmp/env'",
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert events[-1]["event"] == "supervisor.exited"
    assert events[-1]["generations"] == 2
    log = bare_image / "tmp" / "logs" / "job-proc-rank-1-device-1.txt"
    assert log.read_text().count("rank 1 runs") == 2
    ours = (bare_image / "tmp" / "env").read_text().splitlines()
    assert "PYTHONPATH=/bad" in ours  # the image's, for the image's own Python
    assert not [line for line in ours if line.startswith(("LD_", "PYTHONUNBUFFERED=no"))]
    asked = in_image(bare_image, f"{bin_}/ascend-supervisorctl --log-dir /tmp/logs status")
    assert "ended" in asked.stdout


def test_the_portable_directory_runs_from_where_it_is_copied_to(portable, tmp_path):
    elsewhere = shutil.copytree(portable, tmp_path / "a place", copy_function=os.link)
    link = tmp_path / "supervisor"
    link.symlink_to(elsewhere / "bin" / "ascend-supervisor")
    for program in (elsewhere / "bin" / "ascend-supervisor", link):
        done = subprocess.run([program, "--version"], check=False, capture_output=True, text=True)
        assert done.stdout.startswith("ascend_supervisor "), done.stderr
    spy = subprocess.run([elsewhere / "bin" / "py-spy", "--version"], check=True)
    assert spy.returncode == 0
