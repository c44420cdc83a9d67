"""Real etcd servers on loopback: started, stopped, killed, frozen, thawed, wiped."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.etcd.access import Endpoint
from tests.ports import free_port
from tests.running import wait_until

PROGRAM = shutil.which("etcd")
CONTROL = shutil.which("etcdctl")
ROOT_PASSWORD = "of root"  # noqa: S105


class Tls(Struct, frozen=True):
    """The files of a server's certificate, and of the CA that has signed it."""

    ca: Path
    certificate: Path
    key: Path


class EtcdServer:
    """One etcd, whose data are below ``root``; it listens at ``url`` whenever it runs."""

    def __init__(
        self,
        root: Path,
        *,
        host: str = "127.0.0.1",
        tls: Tls | None = None,
        arguments: Sequence[str] = (),
        before: Sequence[str] = (),
        port: int | None = None,
    ) -> None:
        """``before`` are words before each command, such as those that enter a network."""
        self.endpoint = Endpoint(host, port or free_port(host), tls is not None)
        self._before = before
        self._root = root
        self._tls = tls
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return str(self.endpoint)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self._root / "log").read_text()

    def start(self) -> EtcdServer:
        """Serve what its data hold; returns when it answers."""
        assert self._process is None
        assert PROGRAM is not None
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._before, PROGRAM, *self._words()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        wait_until(self._answers)
        return self

    def stop(self) -> None:
        """SIGTERM; returns when it has ended."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, also if it is frozen; what it has said it did is not lost."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: the kernel still accepts connections for it."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: _state(self.pid) == "T")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wipe(self) -> None:
        """Lose all data; afterwards it runs as a new one, of the same name and cluster id."""
        self.kill()
        shutil.rmtree(self._root / "data")
        self.start()

    def keep_backup(self) -> None:
        """What it holds now, for ``restore``; it is away meanwhile."""
        self.stop()
        shutil.copytree(self._root / "data", self._root / "backup")
        self.start()

    def restore(self) -> None:
        """It holds what it held at its backup, as after a disaster."""
        self.kill()
        shutil.rmtree(self._root / "data")
        shutil.copytree(self._root / "backup", self._root / "data")
        self.start()

    def control(self, *words: str, user: str = "") -> str:
        """What etcdctl prints."""
        assert CONTROL is not None
        login = ["--user", user] if user else []
        ca = ["--cacert", str(self._tls.ca)] if self._tls else []
        return subprocess.run(
            [*self._before, CONTROL, "--endpoints", self.url, *ca, *login, *words],
            env={"ETCDCTL_API": "3", "PATH": os.environ.get("PATH", "")},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def admit(self, user: str, password: str, prefix: str) -> None:
        """From now on it asks for users; this one may read and write below ``prefix``."""
        self.control("user", "add", f"root:{ROOT_PASSWORD}")
        self.control("user", "grant-role", "root", "root")
        self.control("user", "add", f"{user}:{password}")
        self.control("role", "add", "ours")
        self.control("role", "grant-permission", "ours", "readwrite", "--prefix=true", prefix)
        self.control("user", "grant-role", user, "ours")
        self.control("auth", "enable")

    def change_password(self, user: str, password: str) -> None:
        """Tokens of this user end with it."""
        assert CONTROL is not None
        words = ("user", "passwd", user, "--interactive=false")
        subprocess.run(
            [CONTROL, "--endpoints", self.url, "--user", f"root:{ROOT_PASSWORD}", *words],
            env={"ETCDCTL_API": "3", "PATH": os.environ.get("PATH", "")},
            check=True,
            capture_output=True,
            input=f"{password}\n".encode(),
        )

    def _words(self) -> list[str]:
        tls = self._tls
        files = [f"--cert-file={tls.certificate}", f"--key-file={tls.key}"] if tls else []
        return [
            "--name=one",
            f"--data-dir={self._root / 'data'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--logger=zap",
            "--log-level=warn",
            "--unsafe-no-fsync",
            "--bcrypt-cost=4",
            *files,
            *self._arguments,
        ]

    def _answers(self) -> bool:
        """Whether it serves; a connection is not enough, as it has to elect itself first."""
        assert self._process is not None
        assert self._process.poll() is None, self.log
        if self._before:
            try:
                self.control("endpoint", "health")
            except subprocess.CalledProcessError:
                return False
            return True
        trust = None
        if self._tls is not None:
            trust = ssl.create_default_context(cafile=self._tls.ca)
            trust.check_hostname = False
            trust.verify_mode = ssl.CERT_NONE  # some certificates here are out of date
            trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # ours lacks what Python 3.13 asks for
        try:
            health = f"{self.url}/health"
            with urllib.request.urlopen(health, timeout=5, context=trust) as answer:  # noqa: S310
                return b'"true"' in answer.read()
        except OSError as error:
            return "ALERT" in str(error)  # it serves those that have a certificate

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


def make_tls(directory: Path, *names: str) -> Tls:
    """A CA, and a server's certificate for ``names`` such as IP:127.0.0.1 or DNS:localhost."""
    directory.mkdir(parents=True)
    ca, ca_key = directory / "ca.pem", directory / "ca.key"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    _openssl("req", "-x509", *new, "-subj", "/CN=a CA", "-keyout", ca_key, "-out", ca)
    tls = Tls(ca, directory / "server.pem", directory / "server.key")
    named = ["-addext", f"subjectAltName={','.join(names)}", "-subj", "/O=etcd"]
    signed = ["-CA", ca, "-CAkey", ca_key]
    _openssl("req", "-x509", *new, *named, *signed, "-keyout", tls.key, "-out", tls.certificate)
    return tls


def with_dates(tls: Tls, begin: str, end: str) -> Tls:
    """The same, its certificate valid between these times, such as 20200101000000Z."""
    directory = tls.ca.parent
    (directory / "index").touch()
    (directory / "serial").write_text("01\n")
    settings = directory / "ca.conf"
    settings.write_text(
        f"[ca]\ndefault_ca=one\n[one]\ndir={directory}\ndatabase=$dir/index\nserial=$dir/serial\n"
        "new_certs_dir=$dir\ndefault_md=sha256\npolicy=any\ncopy_extensions=copy\n"
        "[any]\norganizationName=optional\n"
    )
    request, dated = directory / "server.csr", directory / "dated.pem"
    names = ("-subj", "/O=etcd", "-addext", "subjectAltName=IP:127.0.0.1")
    _openssl("req", "-new", "-key", tls.key, *names, "-out", request)
    signed = ("-cert", tls.ca, "-keyfile", directory / "ca.key", "-in", request, "-out", dated)
    dates = ("-startdate", begin, "-enddate", end)
    _openssl("ca", "-batch", "-notext", "-config", settings, *signed, *dates)
    return Tls(tls.ca, dated, tls.key)


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
