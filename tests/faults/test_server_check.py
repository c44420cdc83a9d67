"""Servers that are not fit: each fault is named before a rank starts; and fit ones."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.doctor.programs import npu_smi, path_with
from tests.faults.facilities import CGROUPS, cgroup
from tests.rank_tables import WITHOUT_ADDRESSES, data

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")

DEV = """
cd "$1"; shift
mkdir -p shm
touch null urandom davinci0 davinci1 davinci2 davinci3 davinci_manager devmm_svm hisi_hdc
mount --bind /dev/null null
mount --bind /dev/urandom urandom
mount -t tmpfs -o size=1g tmpfs shm
"""
"""A /dev of our own, with four NPUs."""
OF_ITS_OWN = ("unshare", "--mount", "--net", "sh", "-ec")
"""On the network of the machine others may hold a port of HCCL for a moment."""
AS_MOUNTED = """
mount --rbind . /dev
cd "$1"; shift
exec "$@"
"""
OLD_PLOGS = """
mount -t tmpfs -o size=200m tmpfs "$LOGS"
mkdir -p "$LOGS/plog/debug/plog"
head -c 120m /dev/zero > "$LOGS/plog/debug/plog/plog-1_1.log"
"""
LISTENS = f"""
mkfifo "$LOGS/up"
{sys.executable} -c 'if True:
    import socket, sys, time
    listener = socket.create_server(("", 20123))
    open(sys.argv[1], "w").close()
    time.sleep(600)' "$LOGS/up" > /dev/null 2>&1 &
cat "$LOGS/up"
"""
"""Another program has this port, in the network of the server."""
FAULTS = {
    "an NPU is missing": ("rm davinci3", {}, "devices: found 3 NPUs in /dev (0, 1, 2)", 69),
    "hisi_hdc is missing": ("rm hisi_hdc", {}, "devices of the driver: found no hisi_hdc", 0),
    "a device that is not visible": (
        "",
        {"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,7"},
        "ASCEND_RT_VISIBLE_DEVICES: found '0,1,2,7', but 4 NPUs here",
        0,
    ),
    "shared memory of Docker": (
        "umount shm; mount -t tmpfs -o size=64m tmpfs shm",
        {},
        "shared memory: found /dev/shm of 64 MiB",
        0,
    ),
    "shared memory is full": (
        "head -c 1020m /dev/zero > shm/torch_4194000_1_1",
        {},
        "1024 MiB, 4 MiB of it free; 1020 MiB in 1 file of processes that have ended",
        0,
    ),
    "the disk of the logs is full": (
        'mount -t tmpfs -o size=10m tmpfs "$LOGS"',
        {},
        "log directory: found 10 MiB free for ",
        0,
    ),
    "no inodes for the logs": (
        'mount -t tmpfs -o nr_inodes=60 tmpfs "$LOGS"',
        {},
        "more files (inodes) for ",
        0,
    ),
    "logs of CANN take more than is left": (
        OLD_PLOGS,
        {"ASCEND_PROCESS_LOG_PATH": "LOGS/plog"},
        "logs of CANN: found 120 MiB in ",
        0,
    ),
    "few descriptors": ("ulimit -Sn 900", {}, "descriptors: found ulimit -n 900", 0),
    "a termination log that is a directory": (
        "mkdir termination-log",
        {},
        "termination log: found that /dev/termination-log is a directory",
        0,
    ),
    "an NPU with an alarm": (
        "",
        {"HEALTH": "Alarm"},
        "health of NPUs: found NPU 2, chip 0: Alarm (80C98001), expected OK",
        0,
    ),
    "an NPU in a critical state": ("", {"HEALTH": "Critical"}, "NPU 2, chip 0: Critical", 69),
    "an NPU with a warning": ("", {"HEALTH": "Warning"}, "NPU 2, chip 0: Warning", 0),
    "CANN's environment is missing": (
        "",
        {"LD_LIBRARY_PATH": "/nowhere"},
        "environment of CANN: found no libascendcl.so",
        0,
    ),
    "firmware of another release": (
        'echo "Version=6.1.0" > "$ASCEND/firmware/version.info"',
        {},
        "found firmware 6.1.0 beside driver 25.0.rc1.1, expected firmware 7.0.0 to 7.7.99",
        0,
    ),
    "torch_npu of another torch": (
        "",
        {"PYTHONPATH": "SITE"},
        "packages: found torch 2.6.0 beside torch_npu 2.1.0.post10",
        0,
    ),
    "the port of rank 0 is taken": (
        LISTENS,
        {"MASTER_PORT": "20123"},
        " is taken, expected a free port, at which rank 0 can listen",
        0,
    ),
    "a port of HCCL is taken": (
        LISTENS,
        {"HCCL_IF_BASE_PORT": "20123"},
        " is held by another program, expected a free port for each NPU",
        0,
    ),
    "a port that HCCL refuses": (
        "",
        {"HCCL_IF_BASE_PORT": "65536"},
        "ports of HCCL: found HCCL_IF_BASE_PORT='65536', expected a whole number from 1024",
        0,
    ),
    "a command of the user that fails": (
        "",
        {"ASCEND_SUPERVISOR_SERVER_CHECK": "sh -c 'echo bandwidth 3 of 20 GB/s; exit 1'"},
        "--server-check: found that sh exited with status 1 (its last output: bandwidth 3 of 20",
        69,
    ),
}
HEALTHY = """
if [ "$*" = "info -t health -i 2 -c 0" ]; then echo "Error Code : 80C98001"; fi
"""


@pytest.fixture
def npu_server(supervised, tmp_path):
    """``npu_server(shell, **environ)``: a job on a server with four NPUs, after these commands.

    Its rank table is TABLE; without it the job has no other server.
    """
    dev, logs, ascend = tmp_path / "dev", tmp_path / "modelarts" / "log", tmp_path / "Ascend"
    for place in (dev, logs, ascend / "driver", ascend / "firmware", ascend / "lib64"):
        place.mkdir(parents=True)
    (ascend / "lib64" / "libascendcl.so").touch()
    (ascend / "driver" / "version.info").write_text(
        "package_version=25.0.rc1.1\ncompatible_version_fw=[7.0.0,7.7.99]\n"
    )
    (ascend / "firmware" / "version.info").write_text("Version=7.7.0.1.231\n")
    site = tmp_path / "site"
    for name, version in (("torch", "2.6.0"), ("torch_npu", "2.1.0.post10")):
        about = site / f"{name}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    rank = tmp_path / "rank.py"
    rank.write_text("import time; time.sleep(0.1)")
    table = tmp_path / "table.json"

    def start(shell, *words, **environ):
        table.write_bytes(environ.pop("TABLE", data(WITHOUT_ADDRESSES)))
        npu_smi(tmp_path, "OK", "OK", environ.pop("HEALTH", "OK"), "OK", more=HEALTHY)
        places = {"LOGS": logs, "ASCEND": ascend, "SITE": site}
        usual = {"LD_LIBRARY_PATH": f"{ascend}/lib64", **path_with(tmp_path)}
        told = {name: _placed(value, places) for name, value in environ.items()}
        mounts = 'mkdir -p /usr/local/Ascend; mount --bind "$ASCEND" /usr/local/Ascend'
        script = f"{mounts}\n{DEV}\n{shell}\n{AS_MOUNTED}"
        return supervised(
            *("--rank-table", str(table), "--node-rank", "0", "--release-delay", "0"),
            *words,
            *("--", sys.executable, str(rank)),
            before=(*OF_ITS_OWN, script, "sh", str(dev), str(tmp_path)),
            environ={**usual, "LOGS": str(logs), "ASCEND": str(ascend), **told},
        )

    return start


def _placed(value: str, places: dict[str, object]) -> str:
    for name, place in places.items():
        value = value.replace(name, str(place))
    return value


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_server_is_named_before_a_rank_starts(npu_server, fault):
    shell, environ, told, code = FAULTS[fault]
    job = npu_server(shell, **environ)
    event = job.wait_for("server.checked")
    reasons = (*event["unfit"], *event["warnings"])
    assert any(told in reason for reason in reasons)
    assert event["verdict"] == ("unfit" if code else "warning")
    assert event["seconds"] < 10
    assert job.end() == code
    order = [one["event"] for one in job.events]
    if code:
        assert job.all("process.started") == []
        assert told in job.events[-1]["root_cause"]
    else:
        assert order.index("server.checked") < order.index("process.started")
        assert len(reasons) == 1


def test_a_healthy_server_with_npus_is_not_mentioned(npu_server):
    job = npu_server("")
    assert job.end() == 0
    assert job.all("server.checked") == []


ONLY_V2 = """
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
"""


def test_a_healthy_server_with_npus_in_cgroup_v2_is_not_mentioned(npu_server):
    job = npu_server(ONLY_V2)
    assert job.end() == 0
    assert job.all("server.checked") == []


def test_a_healthy_server_with_npus_and_limits_of_cgroup_v1_is_not_mentioned(npu_server):
    with cgroup("pids", max="400") as pids, cgroup("memory", limit_in_bytes=str(6 << 30)) as memory:
        if not (CGROUPS / "pids").is_dir():
            pytest.skip("this machine has no cgroup v1")
        job = npu_server("".join(f"echo 0 > {group}/cgroup.procs\n" for group in (pids, memory)))
        assert job.end() == 0
    assert job.all("server.checked") == []


def test_a_healthy_server_of_a_job_of_512_ranks_is_not_mentioned(npu_server):
    servers = [
        {
            "server_id": f"10.0.0.{server}",
            "device": [
                {"device_id": str(n), "device_ip": f"192.168.{server}.{n}", "rank_id": str(rank)}
                for n, rank in enumerate(range(4 * server, 4 * server + 4))
            ],
        }
        for server in range(128)
    ]
    table = {"version": "1.0", "server_count": "128", "status": "completed", "server_list": servers}
    job = npu_server("", TABLE=json.dumps(table).encode())
    assert job.end() == 0
    assert len(job.all("process.exited")) == 4
    assert job.all("rank_table.ready")[0]["world_size"] == 512
    assert job.all("server.checked") == []


AS_A_USER = ("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups")
READ_ONLY = """
mount --bind / /mnt
mount -o remount,bind,ro /mnt
mount --bind "$1" "/mnt$1"
mount --rbind /proc /mnt/proc
mount --rbind /dev /mnt/dev
shift
exec chroot /mnt "$@"
"""
LAYOUTS = {
    "root": (),
    "uid 1000": AS_A_USER,
    "a root file system that is read-only": ("unshare", "--mount", "sh", "-ec", READ_ONLY, "sh"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_healthy_server_without_npus_is_not_mentioned(supervised, tmp_path, layout):
    before = LAYOUTS[layout]
    (tmp_path / "modelarts" / "log").mkdir(parents=True)
    for place in (tmp_path, *tmp_path.rglob("*")):
        os.chown(place, 1000 if before == AS_A_USER else 0, -1)
    for place in tmp_path.parents:
        if str(place).startswith("/tmp/"):
            place.chmod(0o755)
    if layout.startswith("a root"):
        before = (*before, str(tmp_path))
    words = ("--standalone", "4", "--log-level", "debug")
    job = supervised(*words, "--", "/bin/true", before=before)
    assert job.end() == 0
    assert job.all("server.checked") == []
