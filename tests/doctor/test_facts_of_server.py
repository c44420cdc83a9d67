"""The versions that servers compare, from the files of a machine and a real Python."""

from __future__ import annotations

import platform

from ascend_supervisor import __version__
from ascend_supervisor.doctor.facts_of_server import CODE, facts_of_server
from tests.doctor.programs import ask, bare_python
from tests.doctor.servers import server


async def test_they_are_those_of_driver_firmware_cann_and_the_python_of_the_ranks(tmp_path):
    found = server(tmp_path, python=bare_python(tmp_path))
    for name, text in (
        ("driver", "Version=1\npackage_version=25.0.rc1\n"),
        ("firmware", "Version=7.7.0\n"),
        ("ascend-toolkit/latest/runtime", "Version=8.3.0\n"),
    ):
        (found.roots.ascend / name).mkdir(parents=True)
        (found.roots.ascend / name / "version.info").write_text(text)
    assert (await facts_of_server(found, ask, None)).told == {
        "ascend-supervisor": __version__,
        "driver": "25.0.rc1",
        "firmware": "7.7.0",
        "CANN": "8.3.0",
        "Python": platform.python_version(),
    }


async def test_where_nothing_is_installed_there_are_none_but_our_own(tmp_path):
    told = (await facts_of_server(server(tmp_path, python="none-is-there"), ask, None)).told
    assert told == {"ascend-supervisor": __version__}


async def test_the_code_has_a_digest_or_the_reason_why_it_has_none(tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    first = (await facts_of_server(server(tmp_path), ask, code)).told[CODE]
    (code / "train.py").touch()
    second = (await facts_of_server(server(tmp_path), ask, code)).told[CODE]
    assert len(first) == len(second) == len("0123456789abcdef")
    assert first != second
    missing = await facts_of_server(server(tmp_path), ask, tmp_path / "nowhere")
    assert missing.told[CODE] == missing.no_digest == "no digest: No such file or directory"
