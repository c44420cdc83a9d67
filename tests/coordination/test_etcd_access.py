"""From the settings to a client of a real etcd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from ascend_supervisor.coordination.peers.meeting import access_of, etcd_of
from ascend_supervisor.doctor.server_of_job import etcd_named
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.etcd.failures import Refused
from ascend_supervisor.settings.peers_options import PASSWORD
from tests.etcd.asking import put, value_of
from tests.etcd.fixtures import etcd_server
from tests.etcd.servers import make_tls
from tests.job_settings import settings
from tests.running import python

__all__ = ["etcd_server"]

JOB = {"JOB_ID": "j"}
SECRET = "s3cret"  # noqa: S105
LATE = ("--peers-fence=60", "--peers-timeout=200")


async def test_ca_user_and_password_file_reach_etcd(etcd_server, tmp_path):
    tls = make_tls(tmp_path / "tls", "IP:127.0.0.1")
    server = etcd_server(tls=tls)
    server.admit("bob", SECRET, "a")
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    read = settings(
        *(f"--peers={server.url}", f"--peers-ca={tls.ca}", "--peers-user=bob"),
        *(f"--peers-password-file={file}", "--peers-ttl=40s"),
        *("--peers-fence=60", "--peers-timeout=200"),
        env=JOB,
    )
    async with etcd_of(etcd_named(read, JOB)) as etcd:
        await put(etcd, "a", b"b")
        assert await value_of(etcd, "a") == b"b"


async def test_a_password_that_was_changed_is_read_again(etcd, tmp_path):
    etcd.admit("bob", SECRET, "a")
    file = tmp_path / "password"
    file.write_text(SECRET)
    read = settings(
        f"--peers={etcd.url}", "--peers-user=bob", f"--peers-password-file={file}", env=JOB
    )
    async with etcd_of(etcd_named(read, JOB)) as client:
        await put(client, "a", b"b")
        etcd.change_password("bob", "new")
        for content in (SECRET.encode(), b"", b"\xff", None):
            if content is None:
                file.unlink()
            else:
                file.write_bytes(content)
            with pytest.raises(Refused, match="it does not know the user, or not with this pass"):
                await value_of(client, "a")
        other = file.with_name("other")
        other.write_text("new\n")
        file.symlink_to(other)
        assert await value_of(client, "a") == b"b"


async def test_a_ca_that_was_renewed_is_read_again(etcd_server, tmp_path):
    old, new = (make_tls(tmp_path / name, "IP:127.0.0.1") for name in ("old", "new"))
    server = etcd_server(tls=old)
    file = tmp_path / "ca"
    file.write_bytes(old.ca.read_bytes())
    read = settings(f"--peers={server.url}", f"--peers-ca={file}", "--peers-ttl=40", *LATE, env=JOB)
    async with etcd_of(etcd_named(read, JOB)) as client:
        await put(client, "a", b"b")
        server.stop()
        server._tls = new
        server.start()
        with pytest.raises(Refused, match="not signed by a CA that is trusted here"):
            await value_of(client, "a")
        file.write_bytes(new.ca.read_bytes())
        with suppress(Refused):  # it was read after this one
            await value_of(client, "a")
        assert await value_of(client, "a") == b"b"


def test_a_job_whose_password_is_changed_runs_on(etcd, supervised, tmp_path):
    etcd.admit("bob", SECRET, "/ascend-supervisor/")
    file = tmp_path / "password"
    file.write_text(SECRET)
    words = [etcd.url if word == "http://127.0.0.1:1" else word for word in OPTIONS]
    waits = python("import time; print('up', flush=True)\nwhile True: time.sleep(0.1)")
    job = supervised(*words, f"--peers-password-file={file}", "--peers-ttl=4", *waits)
    job.wait_for("output", msg="up")
    etcd.change_password("bob", "new")
    told = job.wait_for("peers.unreachable")["reason"]
    assert "it does not know the user, or not with this password" in told
    file.write_text("new")
    job.wait_for("peers.reachable")
    job.send(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.parametrize("way", ["file", "variable"])
def test_a_wrong_password_ends_a_start_at_once(etcd, supervised, tmp_path, way):
    etcd.admit("bob", SECRET, "/ascend-supervisor/")
    file = tmp_path / "password"
    file.write_text("wrong")
    words = [etcd.url if word == "http://127.0.0.1:1" else word for word in OPTIONS]
    told = (f"--peers-password-file={file}",) if way == "file" else ()
    job = supervised(*words, *told, *python("pass"), environ={PASSWORD: "" if told else "wrong"})
    assert job.end() == 69
    reason = job.events[-1]["reason"]
    assert "it does not know the user, or not with this password" in reason
    assert not job.all("peers.unreachable")


def test_the_password_comes_from_the_environment():
    environ = {**JOB, PASSWORD: SECRET}
    read = settings("--peers=http://a:1", "--peers-user=bob", env=environ)
    login = access_of(etcd_named(read, environ)).login
    assert login is not None
    assert (login.user, login.password.text) == ("bob", SECRET)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"\n", "expected a password, found an empty file"),
        (b"\xff", "it is not UTF-8"),
        (b"x" * 5000, "it is larger than 4096 bytes"),
    ],
)
async def test_a_password_file_that_cannot_be_used_is_refused(tmp_path, content, reason):
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    read = settings(
        "--peers=http://a:1", "--peers-user=b", f"--peers-password-file={file}", env=JOB
    )
    with pytest.raises(SettingsRefused, match=f"--peers-password-file: {file}.*{reason}"):
        async with etcd_of(etcd_named(read, JOB)):
            pass


async def test_a_ca_that_holds_none_is_refused_with_its_place(tmp_path):
    file = tmp_path / "ca"
    file.write_text("nothing")
    read = settings("--peers=https://a:1", f"--peers-ca={file}", env=JOB)
    with pytest.raises(SettingsRefused, match=f"--peers-ca: {file}: .* holds no certificate"):
        async with etcd_of(etcd_named(read, JOB)):
            pass


WITHOUT_HTTPX = """
import sys
sys.modules["httpx"] = None  # as if it were not installed
from ascend_supervisor.cli import main
main()
"""


def test_without_httpx_it_is_said_how_to_install_it(tmp_path):
    words = ("--standalone", "1", "--peers=http://127.0.0.1:1", "--peers-job=j", "--", "true")
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_HTTPX, *words],
        env={**os.environ, "MA_MOUNT_PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 64
    assert (
        "--peers: the Python package httpx is not installed here; install it with: "
        f"{sys.executable} -m pip install 'httpx>=0.28'"
    ) in ended.stderr
    assert not [event for event in ended.stdout.splitlines() if "process.started" in event]


OPTIONS = (
    *("--standalone", "1", "--peers", "http://127.0.0.1:1", "--peers-user", "bob"),
    *("--peers-job", "j"),
)
SHOWS = f"import os; print('PATH' in os.environ, {PASSWORD!r} in os.environ)"


def test_a_password_reaches_neither_ranks_nor_events_nor_the_state_file(etcd, supervised):
    etcd.admit("bob", SECRET, "/ascend-supervisor/")
    words = [etcd.url if word == "http://127.0.0.1:1" else word for word in OPTIONS]
    job = supervised(*words, *python(SHOWS), environ={PASSWORD: SECRET})
    assert job.end() == 0, job.stderr
    assert job.said(0) == ["True False"]
    written = [file.read_bytes() for file in job.root.glob("modelarts/**/*") if file.is_file()]
    assert written
    assert not any(SECRET.encode() in content for content in written)
    assert SECRET not in str(job.events) + job.stderr
    assert f"peers={etcd.url}" in str(job.events)


def test_check_does_not_show_a_password():
    done = subprocess.run(
        [sys.executable, "-m", "ascend_supervisor", "--check", *OPTIONS, "--", "true"],
        env={"PATH": os.environ["PATH"], PASSWORD: SECRET},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"processes"' in done.stdout
    assert SECRET not in done.stdout + done.stderr


async def test_a_ca_that_is_no_file_is_refused_at_once(tmp_path):
    fifo = tmp_path / "ca"
    os.mkfifo(fifo)
    read = settings("--peers=https://a:1", f"--peers-ca={fifo}", env=JOB)
    with pytest.raises(SettingsRefused, match="cannot be read: it is not a regular file"):
        async with etcd_of(etcd_named(read, JOB)):
            pass
