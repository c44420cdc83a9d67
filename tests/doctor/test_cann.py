"""CANN's environment and versions; files as its installers write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_supervisor.doctor.cann import cann_environment, packages, versions
from ascend_supervisor.doctor.check import ThisServer
from tests.doctor.programs import ask, bare_python, path_with, program
from tests.doctor.servers import only, server

Made = Callable[..., ThisServer]
DRIVER = """\
Version=25.0.rc1.1
Innerversion=V100R001C21SPC002B220
compatible_version=[V100R001C17],[V100R001C18]
compatible_version_fw=[6.4.0,6.4.99],[7.0.0,7.7.99]
package_version=25.0.rc1.1
"""
COMPILER = """\
Version=7.8.T5.0.B028
version_dir=8.2.T2
required_opp_abi_version=">=6.3, <=7.8"
required_package_opp_kernel_version=">=7.6, <=7.8"
required_package_runtime_version="7.8"
"""
MINDSPORE = """
class GPUEnvChecker(EnvChecker):
    def __init__(self, library_path):
        self.version = ["10.1", "11.1"]


class AscendEnvChecker(EnvChecker):
    def __init__(self, library_path):
        self.version = ["8.2", "8.3"]
"""


@pytest.fixture
def cann(tmp_path):
    """``cann(**facts)``: a server with an NPU and an empty CANN that the environment names."""
    home = tmp_path / "cann"
    (home / "lib64").mkdir(parents=True)
    (home / "lib64" / "libascendcl.so").touch()
    environ = {"ASCEND_HOME_PATH": str(home), "LD_LIBRARY_PATH": f"/nowhere:{home}/lib64"}

    def made(**more):
        facts = {"environ": environ, "python": "python3", **more}
        found = server(tmp_path, **facts)
        (found.roots.dev / "davinci0").touch()
        return found

    return made


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_environment_from_set_env_is_fit(cann, tmp_path):
    row = only(cann_environment(cann()))
    assert (row.verdict, row.found) == ("fit", f"libascendcl.so in {tmp_path}/cann/lib64")


def test_libraries_that_python_would_not_find_are_told_with_what_to_give(cann):
    row = only(cann_environment(cann(environ={})))
    assert row.verdict == "warning"
    assert row.found == "no libascendcl.so in LD_LIBRARY_PATH, nor in the linker's cache"
    assert "--env-from" in row.remedy


def test_libraries_in_the_linkers_cache_are_found(cann, tmp_path):
    (tmp_path / "ld.so.cache").write_bytes(b"\0libascendcl.so\0/opt/cann/libascendcl.so\0")
    assert only(cann_environment(cann(environ={}))).verdict == "fit"


def test_a_directory_of_cann_that_is_not_here_is_told(cann):
    row = only(cann_environment(cann(environ={"ASCEND_HOME_PATH": "/nowhere/cann"})))
    assert row.found == "ASCEND_HOME_PATH='/nowhere/cann', which is no directory here"


def test_a_script_may_source_set_env_itself(cann):
    assert list(cann_environment(cann(environ={}, python=None))) == []


def test_firmware_that_the_driver_does_not_go_with_is_told(cann):
    found = cann()
    write(found.roots.ascend / "driver" / "version.info", DRIVER)
    write(found.roots.ascend / "firmware" / "version.info", "Version=7.7.0.1.231\n")
    row = only(versions(found))
    assert (row.verdict, row.found) == (
        "fit",
        "driver 25.0.rc1.1, firmware 7.7.0.1.231",
    )
    write(found.roots.ascend / "firmware" / "version.info", "Version=7.8.0.2.212\n")
    row = only(versions(found))
    assert row.verdict == "warning"
    assert row.expected == "firmware 6.4.0 to 6.4.99 or 7.0.0 to 7.7.99"


@pytest.mark.parametrize(
    ("kernels", "verdict"), [("7.6.0.1", "fit"), ("7.8.9", "fit"), ("8.3.T5.0", "warning")]
)
def test_packages_of_cann_of_two_releases_are_told(cann, tmp_path, kernels, verdict):
    write(tmp_path / "cann" / "compiler" / "version.info", COMPILER)
    write(tmp_path / "cann" / "runtime" / "version.info", "Version=7.8.0.1\n")
    write(tmp_path / "cann" / "opp_kernel" / "version.info", f"Version={kernels}\n")
    row = only(versions(cann()))
    assert row.verdict == verdict
    if verdict == "warning":
        assert row.found == f"CANN's opp_kernel {kernels} beside its compiler 7.8.T5.0.B028"
        assert row.expected == "opp_kernel >=7.6, <=7.8"


def installed(cann: Made, tmp_path: Path, **found: str) -> ThisServer:
    """A Python that says so of what is installed for it."""
    site = tmp_path / "site"
    write(site / "mindspore" / "run_check" / "_check_version.py", MINDSPORE)
    lines = [
        f'printf "found\\t{name}\\t{number}\\t{site}/{name}\\n"' for name, number in found.items()
    ]
    program(tmp_path, "python9", "\n".join(lines))
    environ = {**cann().environ, **path_with(tmp_path)}
    return cann(python="python9", environ=environ)


@pytest.mark.parametrize(
    ("torch", "torch_npu", "verdict"),
    [
        ("2.1.0", "2.1.0.post10", "fit"),
        ("2.5.1+cpu", "2.5.1.post1", "fit"),
        ("2.6.0", "2.1.0.post10", "warning"),
    ],
)
async def test_torch_npu_for_another_torch_is_told(cann, tmp_path, torch, torch_npu, verdict):
    row = only(await packages(installed(cann, tmp_path, torch=torch, torch_npu=torch_npu), ask))
    assert row.verdict == verdict
    assert f"torch_npu {torch_npu}" in row.found


@pytest.mark.parametrize(("number", "verdict"), [("8.3.0.1", "fit"), ("7.8.0.1", "warning")])
async def test_a_cann_that_mindspore_does_not_list_is_told(cann, tmp_path, number, verdict):
    write(tmp_path / "cann" / "compiler" / "version.info", f"Version={number}\n")
    row = only(await packages(installed(cann, tmp_path, mindspore="2.7.0"), ask))
    assert row.verdict == verdict
    if verdict == "warning":
        assert row.sentence.startswith(
            f"packages: found MindSpore 2.7.0 beside CANN {number}, expected CANN 8.2 or 8.3"
        )


async def test_a_real_python_without_these_packages_says_nothing(cann, tmp_path):
    assert list(await packages(cann(python=bare_python(tmp_path)), ask)) == []


async def test_a_python_that_fails_is_unknown(cann, tmp_path):
    program(tmp_path, "python9", "echo broken >&2; exit 1")
    row = only(await packages(cann(python="python9", environ=path_with(tmp_path)), ask))
    assert (row.verdict, row.found) == (
        "unknown",
        f"{tmp_path}/python9: it exited with status 1: broken",
    )
