"""Programs of ranks that really fail, each with the cause that is to be told."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.running import FORBIDS, Running

Failing = tuple[str, str]
"""The id of the cause, and the program."""

IS_ARM = os.uname().machine == "aarch64"

SPAWNS = """
from multiprocessing import get_context
child = get_context("spawn").Process()
child.start()
child.join()
raise SystemExit(child.exitcode)
"""
OF_AN_ARCHIVE = """
import io, zipfile
file = io.BytesIO()
with zipfile.ZipFile(file, "w") as archive:
    archive.writestr("part-0", "x" * 99)
damaged = io.BytesIO(file.getvalue().replace(b"xxx", b"xyx", 1))
"""
OF_PYTHON: Sequence[Failing] = (
    ("syntax-error", "def train(:"),
    ("name-undefined", "print(learning_rate)"),
    ("key-missing", "dict(a=1)['b']"),
    ("index-out-of-range", "[][1]"),
    ("attribute-missing", "object().weight"),
    ("none-value", "None + 1"),
    ("wrong-type", "'1' + 1"),
    ("refused-value", "import math; math.sqrt(-1)"),
    ("number-expected", "int('1e-4')"),
    ("argument-missing", "def train(path): pass\ntrain()"),
    ("argument-unknown", "def train(path): pass\ntrain(file=1)"),
    ("argument-count", "def train(path): pass\ntrain(1, 2)"),
    ("assertion-failed", "assert 1 == 2, 'world size'"),
    ("division-by-zero", "1 / 0"),
    ("recursion-limit", "def again(): again()\nagain()"),
    ("not-implemented", "raise NotImplementedError('bf16')"),
    ("iterator-ended", "next(iter([]))"),
    ("text-encoding", r"b'\xff'.decode()"),
    ("input-ended", "input()"),
    ("package-missing", "import a_package_that_nobody_has"),
    ("import-name-missing", "from json import nothing"),
    ("relative-import", "from . import model"),
    ("not-picklable", "import pickle; pickle.dumps(lambda: 1)"),
    ("main-guard-missing", SPAWNS),
    ("command-line-option", "import argparse; argparse.ArgumentParser().parse_args(['--bs=1'])"),
    ("command-failed", "import subprocess; subprocess.run(['false'], check=True)"),
    ("file-missing", "open('/data/train.bin')"),
    ("path-kind", "open('/tmp')"),
    ("file-exists", "import os; os.mkdir('/tmp')"),
    ("json-invalid", "import json; json.loads('{')"),
    ("archive-damaged", f"{OF_AN_ARCHIVE}\nzipfile.ZipFile(damaged).read('part-0')"),
    ("checkpoint-damaged", "import pickle; pickle.loads(pickle.dumps('x' * 99)[:50])"),
    ("git-lfs-pointer", "import pickle; pickle.loads(b'version https://git-lfs.github.com/spec')"),
)

ILLEGAL = f"""
import ctypes, faulthandler, mmap
faulthandler.enable()
page = mmap.mmap(-1, 4096, prot=7)
page.write({(bytes(4) if IS_ARM else bytes((0x0F, 0x0B)))!r})
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
REFUSED_BY_A_PROXY = r"""
import socket, threading, urllib.request as web
proxy = socket.create_server(("127.0.0.1", 0))
def refuse():
    client, _ = proxy.accept()
    client.recv(999)
    client.sendall(b"HTTP/1.0 403 Forbidden\r\n\r\n")
    client.close()
threading.Thread(target=refuse, daemon=True).start()
handler = web.ProxyHandler({"https": f"http://127.0.0.1:{proxy.getsockname()[1]}"})
web.build_opener(handler).open("https://192.0.2.1/")
"""
LISTENS = "import socket; one = socket.create_server(('127.0.0.1', 0)); at = one.getsockname()"
RUN, LOAD = "os.execv(path, [path])", "ctypes.CDLL(str(path))"
OF_X86, OF_ARM = b"\x3e\x00", b"\xb7\x00"
"""The number of the architecture in the header of a program."""
OTHER_MACHINE = (OF_ARM, OF_X86) if IS_ARM else (OF_X86, OF_ARM)


def spoilt(old: bytes, new: bytes, then: str) -> str:
    """The copy of a program, with the first ``old`` changed, is run or loaded."""
    return f"""
import ctypes, os, pathlib, shutil
path = pathlib.Path(__file__ + ".elf")
path.write_bytes(pathlib.Path(shutil.which("true")).read_bytes().replace({old!r}, {new!r}, 1))
path.chmod(0o755)
{then}
"""


def on_a_storage_that_says(number: int) -> str:
    """The kernel answers fsync so, as it does for a disk or a mount that fails."""
    words = [sys.executable, "-c", FORBIDS, str(number), "82" if IS_ARM else "74", "--"]
    then = "import os, tempfile; os.fsync(tempfile.TemporaryFile())"
    return f"import os; os.execv({sys.executable!r}, {[*words, sys.executable, '-c', then]!r})"


def limited(name: str, value: int, then: str) -> str:
    return f"from resource import *; setrlimit(RLIMIT_{name}, ({value}, {value}))\n{then}"


OF_THE_HOST: Sequence[Failing] = (
    ("host-out-of-memory", limited("AS", 1 << 30, "bytes(1 << 33)")),
    ("host-out-of-memory", "import ctypes; ctypes.CDLL('libstdc++.so.6')._Znwm(ctypes.c_long(-1))"),
    ("host-out-of-memory", "import mmap; mmap.mmap(-1, 1 << 46)"),
    ("too-many-open-files", limited("NOFILE", 9, "files = [open('/dev/null') for _ in range(9)]")),
    ("library-missing", "import ctypes; ctypes.CDLL('libnobody.so.3')"),
    ("library-missing", spoilt(b"libc.so", b"libq.so", RUN)),
    ("library-damaged", "import ctypes; ctypes.CDLL(__file__)"),
    ("library-damaged", spoilt(b"\x7fELF", b"vers", LOAD)),
    ("wrong-architecture", spoilt(*OTHER_MACHINE, RUN)),
    ("wrong-architecture", spoilt(b"ELF\x02", b"ELF\x01", LOAD)),
    ("glibc-too-old", spoilt(b"GLIBC_2", b"GLIBC_9", RUN)),
    ("segmentation-fault", "import ctypes, faulthandler as f; f.enable(); ctypes.string_at(0)"),
    ("segmentation-fault", "import ctypes; ctypes.string_at(0)"),
    ("illegal-instruction", ILLEGAL),
    ("storage-io-error", on_a_storage_that_says(errno.EIO)),
    ("disk-quota", on_a_storage_that_says(errno.EDQUOT)),
    ("network-storage-lost", on_a_storage_that_says(errno.ESTALE)),
    ("program-not-found", "import os, sys; os.execv(sys.executable, ['python', 'trian.py'])"),
    ("port-taken", f"{LISTENS}; socket.create_server(at)"),
    ("address-not-local", "import socket; socket.create_server(('192.0.2.1', 0))"),
    ("connection-refused", f"{LISTENS}; one.close(); socket.create_connection(at)"),
    ("proxy-refused", REFUSED_BY_A_PROXY),
)


def as_nobody(then: str) -> str:
    return f"import os, threading; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n{then}"


def without_processes(then: str) -> str:
    return limited("NPROC", 1, as_nobody(then))


def on_a_disk(place: str, then: str, more: str = "") -> str:
    """A file system of 64 KiB that nobody else sees."""
    mount = f"mount -t tmpfs -o size=64k{more} tmpfs {place}"
    return (
        f"import faulthandler, os; faulthandler.enable(); assert not os.system({mount!r})\n{then}"
    )


def named_by(hosts: str) -> str:
    """Nobody but the rank sees these files of /etc; nobody listens at the name server."""
    return f"""
import os, socket
for name, text in ("nsswitch", "hosts: {hosts}"), ("resolv", "nameserver 127.0.0.1"):
    with open(f"{{__file__}}.{{name}}", "w") as file:
        file.write(text + "\\n")
    assert not os.system(f"mount --bind {{__file__}}.{{name}} /etc/{{name}}.conf")
socket.create_connection(("job-0.nobody", 80))
"""


SHARED = "from multiprocessing.shared_memory import SharedMemory as s; one = s('x', True, 1 << 20)"

OF_THE_MACHINE: Sequence[Failing] = (
    ("disk-full", on_a_disk("/mnt", "open('/mnt/model.pt', 'wb').write(bytes(1 << 20))")),
    ("read-only-file-system", on_a_disk("/mnt", "open('/mnt/model.pt', 'wb')", ",ro")),
    ("bus-error", on_a_disk("/dev/shm", f"{SHARED}; one.buf[:] = bytes(1 << 20)")),
    ("permission-denied", as_nobody("open('/etc/shadow')")),
    ("operation-not-permitted", as_nobody("os.nice(-5)")),
    ("thread-limit", without_processes("threading.Thread(target=print).start()")),
    ("resource-unavailable", without_processes("os.fork()")),
    ("name-unknown", named_by("files")),
    ("name-server-silent", named_by("dns")),
)
"""These need root: a mount namespace, and another user."""


IN_TURN = 'test "$RANK" = 0 || exec sleep 600; exec "$0" "$1/$TORCHELASTIC_RESTART_COUNT.py"'
AT_ONCE = ("--restart-delay", "0", "--release-delay", "0", "--min-uptime", "0")
ALL_STATUSES = ("--no-restart-on", "125")
"""Nobody here ends with this one."""


def mistold(
    supervised: Callable[..., Running],
    root: Path,
    failing: Sequence[Failing],
    *before: str,
    peers: int = 0,
    deadline: float = 90.0,
    environ: Mapping[str, str] | None = None,
) -> list[tuple[str | None, str, str]]:
    """Wrong causes, each with the right one and the program.

    One job runs the programs in turn, one in each generation; ``before`` are words before them,
    ``peers`` other ranks, which wait.
    """
    for number, (_, program) in enumerate(failing):
        (root / f"{number}.py").write_text(program)
    job = supervised(
        *("--standalone", str(1 + peers), "--restarts", str(len(failing) - 1)),
        *(*AT_ONCE, *ALL_STATUSES, "--", *before, "sh", "-c", IN_TURN, sys.executable, str(root)),
        deadline=deadline,
        environ=environ or {},
    )
    job.end()
    known = [event["diagnosis"] for event in job.all("generation.ended")]
    ids = [diagnosis and diagnosis["id"] for diagnosis in known]
    told = zip(ids, failing, strict=True)
    return [(found, right, program) for found, (right, program) in told if found != right]
