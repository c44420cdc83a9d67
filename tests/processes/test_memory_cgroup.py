"""The kernel's count of OOM kills, in the files of cgroup v1 and v2."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_supervisor.processes.kernel import CgroupMemory, free_memory, memory

POD = "/kubepods.slice/pod1/c1"
V1 = f"11:pids:{POD}\n7:cpu,memory:{POD}\n1:name=systemd:{POD}\n"
V2 = f"0::{POD}\n"
HYBRID = f"7:memory:{POD}\n0::{POD}\n"
V1_COUNTER = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
V2_COUNTER = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 5\noom_group_kill 1\n"


def counted(tmp_path: Path, own: str, **files: str) -> int | None:
    """The count where /proc/self/cgroup is ``own`` and /sys/fs/cgroup holds these files."""
    root = tmp_path / "cgroup"
    root.mkdir()
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    proc = tmp_path / "self_cgroup"
    proc.write_text(own)
    found = memory(proc, root)
    return None if found is None else found.kills


@pytest.mark.parametrize(
    ("own", "files", "count"),
    [
        pytest.param(V1, {f"memory{POD}/memory.oom_control": V1_COUNTER}, 3, id="v1"),
        pytest.param(V1, {"memory/memory.oom_control": V1_COUNTER}, 3, id="v1 in a container"),
        pytest.param(V2, {f".{POD}/memory.events": V2_COUNTER}, 5, id="v2"),
        pytest.param(V2, {"memory.events": V2_COUNTER}, 5, id="v2 in a container"),
        pytest.param("0::/\n", {"memory.events": V2_COUNTER}, 5, id="v2 with a namespace"),
        pytest.param(
            "7:memory:/\n", {"memory/memory.oom_control": V1_COUNTER}, 3, id="v1 with a namespace"
        ),
        pytest.param(
            HYBRID, {f"memory{POD}/memory.oom_control": V1_COUNTER}, 3, id="memory is still v1"
        ),
        pytest.param(
            V2,
            {f".{POD}/memory.events": "oom_kill 1\n", "memory.events": "oom_kill 9\n"},
            1,
            id="ours, not our host's",
        ),
        pytest.param(
            V1,
            {f"memory{POD}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"},
            None,
            id="a kernel that does not count (before 4.13)",
        ),
        pytest.param(V1, {}, None, id="v1 not mounted"),
        pytest.param(V2, {}, None, id="v2 not mounted"),
        pytest.param("", {"memory.events": V2_COUNTER}, None, id="no cgroup"),
        pytest.param("3:cpu:/\n", {"memory.events": V2_COUNTER}, None, id="no memory controller"),
        pytest.param(V2, {"memory.events": "oom_kill many\n"}, None, id="no number"),
        pytest.param(V2, {"memory.events": "one two three\n"}, None, id="another layout"),
        pytest.param("0::/../..\n", {"memory.events": V2_COUNTER}, None, id="outside"),
    ],
)
def test_the_count_is_ours_or_unknown(tmp_path, own, files, count):
    assert counted(tmp_path, own, **files) == count


def test_without_proc_nothing_is_known(tmp_path):
    assert memory(tmp_path / "missing", tmp_path) is None


def test_a_file_is_read_anew_at_every_question(tmp_path):
    assert counted(tmp_path, V2, **{"memory.events": "oom_kill 0\n"}) == 0
    (tmp_path / "cgroup/memory.events").write_text("oom_kill 1\n")
    assert memory(tmp_path / "self_cgroup", tmp_path / "cgroup") == CgroupMemory(1)


@pytest.mark.parametrize(
    ("own", "files", "found"),
    [
        (V2, {"memory.events": V2_COUNTER, "memory.max": "1024\n"}, CgroupMemory(5, 2, 1024)),
        (V2, {"memory.events": V2_COUNTER, "memory.max": "max\n"}, CgroupMemory(5, 2, None)),
        (
            V1,
            {
                "memory/memory.oom_control": V1_COUNTER,
                "memory/memory.failcnt": "7\n",
                "memory/memory.limit_in_bytes": "1024\n",
            },
            CgroupMemory(3, 7, 1024),
        ),
        (
            V1,
            {
                "memory/memory.oom_control": V1_COUNTER,
                "memory/memory.failcnt": "0\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            CgroupMemory(3, 0, None),
        ),
    ],
)
def test_the_limit_and_how_often_it_was_reached(tmp_path, own, files, found):
    counted(tmp_path, own, **files)
    assert memory(tmp_path / "self_cgroup", tmp_path / "cgroup") == found


def test_on_this_machine_it_is_a_count_or_unknown():
    found = memory(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    assert found is None or found.kills >= 0


@pytest.mark.parametrize(
    ("own", "files", "free"),
    [
        (V2, {"memory.max": "max\n", "memory.current": "900\n"}, 5000 * 1024),
        (V2, {"memory.max": "1000\n", "memory.current": "900\n"}, 100),
        (
            V2,
            {
                "memory.max": "1000\n",
                "memory.current": "900\n",
                "memory.stat": "anon 500\ninactive_file 300\n",
            },
            400,
        ),
        (
            V1,
            {
                "memory/memory.limit_in_bytes": "1000\n",
                "memory/memory.usage_in_bytes": "900\n",
                "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 50\n",
            },
            150,
        ),
        ("", {}, 5000 * 1024),
    ],
)
def test_the_free_memory_is_what_the_cgroup_and_the_machine_have_left(tmp_path, own, files, free):
    counted(tmp_path, own, **files)
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable: 5000 kB\n")
    proc, root = tmp_path / "self_cgroup", tmp_path / "cgroup"
    assert free_memory(proc, root, meminfo) == free
    assert free_memory(proc, root, tmp_path / "missing") == (free if free < 5000 else None)
