"""What each method starts, for one server and for two; ranktable has a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.model_arts import declared_table
from ascend_supervisor.errors import CommandNotFound, SettingsRefused
from ascend_supervisor.job_files import StartCount, place_of
from ascend_supervisor.launchers import Boot, Here, Launcher
from ascend_supervisor.launchers.mindspore import MindSporeLauncher, MindSporeWords
from ascend_supervisor.launchers.mpirun import MpirunLauncher, MpirunTestimony, Tools
from ascend_supervisor.launchers.msrun import MsrunLauncher, MsrunTestimony
from ascend_supervisor.launchers.tensorflow import TensorFlowLauncher
from ascend_supervisor.launchers.torch_ddp import TorchDdpLauncher
from ascend_supervisor.launchers.torchrun import TorchrunLauncher, TorchrunTestimony, script
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.process_spec import Culprit, Exhibit, HostName, ProcessSpec, WorkerLog

COMMAND = ("python3", "-u", "/code/train.py", "--lr", "1e-3 ")
PLACE = place_of(
    {"MA_MOUNT_PATH": "/m", "MA_VJ_NAME": "ma-job-7", "MA_CURRENT_INSTANCE_NAME": "pod"},
    "pod",
    mounted_log_exists=True,
    here=PurePath("/"),
)
TWO_SERVERS = {"MA_NUM_HOSTS": "2", "MA_NUM_GPUS": "2", "VC_WORKER_HOSTS": "w-0.j,w-1.j"}
ONE_SERVER = {"MA_NUM_HOSTS": "1", "MA_NUM_GPUS": "2"}


def plan(
    launcher: Callable[[Boot], Launcher],
    environ: dict[str, str],
    node_rank: int = 0,
    *,
    generation: int = 0,
    command: tuple[str, ...] = COMMAND,
    port: int | None = None,
) -> tuple[ProcessSpec, ...]:
    declared = declared_table(environ)
    here = Here(node_rank, declared.entries[node_rank], PLACE)
    return launcher(Boot(command, environ, 3, port)).plan(declared, here, generation)


def refusal(launcher: Callable[[Boot], Launcher], environ: dict[str, str]) -> str:
    with pytest.raises(SettingsRefused) as refused:
        plan(launcher, environ)
    return str(refused.value)


# The cluster as it is declared.


def test_what_is_declared_has_ranks_in_the_order_of_the_hosts():
    found = declared_table(TWO_SERVERS)
    assert [[device.rank for device in entry.devices] for entry in found.entries] == [
        [0, 1],
        [2, 3],
    ]
    assert [entry.server_id for entry in found.entries] == ["w-0.j", "w-1.j"]
    assert (found.world_size, found.servers, found.document) == (4, 2, b"")


def test_hosts_that_are_not_listed_have_the_names_that_modelarts_gives():
    environ = {"MA_NUM_HOSTS": "2", "MA_VJ_NAME": "j", "MA_TASK_NAME": "worker"}
    names = [entry.server_id for entry in declared_table(environ).entries]
    assert names == ["j-worker-0.j", "j-worker-1.j"]


@pytest.mark.parametrize(
    ("name", "value", "range_"),
    [
        ("MA_NUM_HOSTS", "0", "1 to 100000"),
        ("MA_NUM_HOSTS", "two", "1 to 100000"),
        ("MA_NUM_GPUS", "-1", "0 to 16"),
        ("MA_NUM_GPUS", "17", "0 to 16"),
        ("MA_NUM_GPUS", "٣", "0 to 16"),
    ],
)
def test_a_wrong_number_is_refused_with_its_name(name, value, range_):
    with pytest.raises(SettingsRefused) as refused:
        declared_table({**ONE_SERVER, name: value})
    assert str(refused.value) == (f"{name}: expected a whole number from {range_}, found {value!r}")


@pytest.mark.parametrize("launcher", [TorchrunLauncher, MsrunLauncher, MindSporeLauncher])
def test_where_no_device_is_known_nothing_can_be_started(launcher):
    assert "set MA_NUM_GPUS to their number" in refusal(launcher, {"MA_NUM_HOSTS": "2"})


@pytest.mark.parametrize(
    ("launcher", "method"),
    [
        (TorchrunLauncher, "torchrun"),
        (MsrunLauncher, "MindSpore"),
        (MindSporeLauncher, "MindSpore"),
        (TorchDdpLauncher, "torch-ddp"),
    ],
)
def test_on_several_servers_a_method_that_needs_an_address_is_not_given_a_wrong_one(
    launcher, method
):
    nameless = {"MA_NUM_HOSTS": "2", "MA_NUM_GPUS": "2"}
    assert refusal(launcher, nameless).startswith(f"{method} needs the address of the first server")
    assert plan(launcher, {**nameless, "MASTER_ADDR": "service.job"})


# torchrun.


def test_torchrun_on_one_server():
    (spec,) = plan(TorchrunLauncher, ONE_SERVER, generation=4)
    assert spec.argv == (
        *("torchrun", "--standalone", "--nnodes=1", "--nproc_per_node=2"),
        *("--max_restarts=0", "--monitor_interval=0.1"),
        "--log_dir=/m/log/modelarts-job-7/torchrun/node_0/generation_4",
        *("/code/train.py", "--lr", "1e-3 "),
    )
    assert spec.environ["TORCHELASTIC_ERROR_FILE"] == str(spec.error_file)
    assert spec.environ["TORCHELASTIC_RESTART_COUNT"] == "4"
    assert spec.rank is None
    assert spec.name == "torchrun"
    assert spec.workers == 2


def test_torchrun_on_two_servers():
    environ = {**TWO_SERVERS, "MA_EXTRA_TORCHRUN_PARAMS": "--rdzv_conf='timeout=7200' --tee 3"}
    (spec,) = plan(TorchrunLauncher, environ, 1)
    assert spec.argv == (
        *("torchrun", "--nnodes=2", "--nproc_per_node=2", "--node_rank=1"),
        *("--master_addr=w-0.j", "--master_port=18888"),
        *("--rdzv_id=modelarts-job-7", "--rdzv_backend=static"),
        *("--max_restarts=0", "--monitor_interval=0.1"),
        "--log_dir=/m/log/modelarts-job-7/torchrun/node_1/generation_0",
        *("--rdzv_conf=timeout=7200", "--tee", "3"),
        *("/code/train.py", "--lr", "1e-3 "),
    )


def test_the_port_of_torchrun():
    environ = {**TWO_SERVERS, "MA_TORCHRUN_MASTER_PORT": "7000"}
    assert "--master_port=7000" in plan(TorchrunLauncher, environ)[0].argv
    assert "--master_port=7001" in plan(TorchrunLauncher, environ, port=7001)[0].argv


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python t.py a", "t.py a"),
        ("/opt/bin/python3.11 -u t.py", "t.py"),
        ("python -u -u t.py -u", "t.py -u"),
        ("python -m pkg.train a", "-m pkg.train a"),
        ("python -O t.py", "--no_python python -O t.py"),
        ("python -c pass", "--no_python python -c pass"),
        ("python", "--no_python python"),
        ("pythonish t.py", "--no_python pythonish t.py"),
        ("t.py a", "t.py a"),
        ("bash t.sh", "--no_python bash t.sh"),
    ],
)
def test_what_torchrun_is_given_to_run(command, words):
    assert script(command.split()) == tuple(words.split())


@pytest.mark.parametrize("words", ["--max_restarts=3", "--max-restarts 3", "-x --max_restarts=3"])
def test_restarts_are_not_torchruns(words):
    sentence = refusal(TorchrunLauncher, {**ONE_SERVER, "MA_EXTRA_TORCHRUN_PARAMS": words})
    assert sentence.startswith("MA_EXTRA_TORCHRUN_PARAMS: --max")
    assert sentence.endswith(
        "it is the supervisor that restarts; leave it out and give --restarts 3"
    )


def test_no_restarts_may_be_said_to_torchrun():
    environ = {**ONE_SERVER, "MA_EXTRA_TORCHRUN_PARAMS": "--max_restarts=0"}
    assert plan(TorchrunLauncher, environ)


def test_words_that_no_shell_reads_are_refused():
    sentence = refusal(TorchrunLauncher, {**ONE_SERVER, "MA_EXTRA_TORCHRUN_PARAMS": "--a='b"})
    assert sentence.startswith("MA_EXTRA_TORCHRUN_PARAMS: expected words as a shell reads them")


SUMMARY = """\
a word of a worker
W1121 09:37:41.400000 5050 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 8 closing signal SIGTERM
E1121 09:37:41.401000 5050 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 1 (pid: 7) of binary: python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  rank      : 4 (local_rank: 0)
  exitcode  : {other} (pid: 8)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  rank      : 5 (local_rank: 1)
  exitcode  : {code} (pid: 7)
"""  # noqa: E501
TESTIMONY = TorchrunTestimony(PurePath("/d"), (4, 5), ("w-1.j",))


def summary(code: int, other: int = -15) -> list[str]:
    return SUMMARY.format(code=code, other=other).splitlines()


def error(local_rank: int, text: str) -> Exhibit:
    content = f'{{"message": {{"message": "{text}"}}}}'.encode()
    return Exhibit(PurePath(f"run_x/attempt_0/{local_rank}/error.json"), content)


def test_without_error_files_the_culprit_is_whom_torchrun_names():
    culprit = TESTIMONY.culprit(summary(3), [], {})
    assert culprit == Culprit(5, ExitStatus(3), None, ("a word of a worker",))


def test_a_negative_code_is_a_signal():
    culprit = TESTIMONY.culprit(summary(-11), [], {})
    assert culprit is not None
    assert culprit.status == ExitStatus(None, 11)


def test_who_wrote_an_error_file_first_was_first():
    culprit = TESTIMONY.culprit(summary(1, 1), [error(0, "bad data"), error(1, "peer lost")], {})
    assert culprit == Culprit(4, ExitStatus(1), "bad data", ("a word of a worker",))


@pytest.mark.parametrize(("other", "rank"), [(-9, 4), (-11, 4), (-6, 5), (-15, 5)])
def test_what_was_raised_is_the_consequence_where_another_was_killed(other, rank):
    culprit = TESTIMONY.culprit(summary(1, other), [error(1, "peer lost")], {})
    assert culprit is not None
    assert culprit.rank == rank


def test_without_a_summary_nobody_is_named():
    assert TESTIMONY.culprit(["cannot reach the master"], [], {}) is None


def test_an_end_that_waited_in_vain_for_the_others_is_doubted():
    assert TESTIMONY.false_success(["all is well"]) is None
    doubt = TESTIMONY.false_success(
        ["E1121 x] Error waiting on exit barrier. Elapsed: 300.1 seconds"]
    )
    assert doubt is not None
    assert doubt.endswith("look at what ended w-1.j")


BROKEN_BARRIER = """\
E1126 10:15:17.497000 11892 torch/distributed/elastic/agent/server/api.py:1008] Error waiting on exit barrier. Elapsed: {elapsed} seconds
E1126 10:15:17.497000 11892 torch/distributed/elastic/agent/server/api.py:1008] Traceback (most recent call last):
E1126 10:15:17.497000 11892 torch/distributed/elastic/agent/server/api.py:1008]   File "/lib/torch/distributed/elastic/utils/store.py", line 198, in barrier
E1126 10:15:17.497000 11892 torch/distributed/elastic/agent/server/api.py:1008]     {call}
E1126 10:15:17.497000 11892 torch/distributed/elastic/agent/server/api.py:1008] torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?
"""  # noqa: E501


@pytest.mark.parametrize(
    ("call", "elapsed", "complete"),
    [
        ("store.wait([last_member_key])", 0.3744797706604004, True),
        ("store.get(last_member_key)", 0.3744797706604004, True),
        ('store.set(last_member_key, "<val_ignored>")', 0.3744797706604004, True),
        ("store.wait([last_member_key])", 5.2, False),
        ("store.wait([last_member_key])", 300.1, False),
        ("store.wait([last_member_key])", 9.5e-05, True),
        ("store.wait([last_member_key])", 2, True),
        ("store.wait([last_member_key])", "...", False),
        ("store.wait([last_member_key])", "1.2.3", False),
        ("last_member_key = _barrier_nonblocking(", 0.01, False),
        ("idx = store.add(num_members_key, 1)", 0.01, False),
        ('data = store.get(f"{prefix}{idx}")', 0.01, False),
    ],
)
def test_a_store_that_is_gone_soon_after_this_torchrun_arrived_may_have_ended_well(
    call, elapsed, complete
):
    lines = BROKEN_BARRIER.format(call=call, elapsed=elapsed).splitlines()
    assert (TESTIMONY.false_success(lines) is None) == complete


@pytest.mark.parametrize(("ends_are_shared", "others"), [(False, ("w-1.j",)), (True, ())])
def test_where_servers_share_their_ends_torchrun_is_not_asked_for_them(ends_are_shared, others):
    declared = declared_table(TWO_SERVERS)
    boot = Boot(COMMAND, TWO_SERVERS, 3, ends_are_shared=ends_are_shared)
    (spec,) = TorchrunLauncher(boot).plan(declared, Here(0, declared.entries[0], PLACE), 0)
    assert isinstance(spec.testimony, TorchrunTestimony)
    assert spec.testimony.others == others
    doubt = spec.testimony.false_success(["E1121 x] Error waiting on exit barrier."])
    assert (doubt is None) == ends_are_shared


# mindspore.


def test_mindspore_starts_a_scheduler_where_rank_0_is():
    environ = {**TWO_SERVERS, "MSRUN_CLUSTER_TIME_OUT": "60"}
    scheduler, *workers = plan(MindSporeLauncher, environ)
    assert not scheduler.significant
    assert scheduler.outlasts_ranks
    assert (scheduler.rank, scheduler.name) == (None, "the scheduler")
    cluster = {
        "MS_WORKER_NUM": "4",
        "MS_SCHED_HOST": "w-0.j",
        "MS_SCHED_PORT": "8118",
        "MS_TOPO_TIMEOUT": "60",
        "RANK_SIZE": "4",
    }
    for spec in (scheduler, *workers):
        assert spec.argv == COMMAND
        assert cluster.items() <= spec.environ.items()
    assert scheduler.environ["MS_ROLE"] == "MS_SCHED"
    assert [
        {name: spec.environ[name] for name in ("MS_ROLE", "MS_NODE_ID", "RANK_ID", "DEVICE_ID")}
        for spec in workers
    ] == [
        {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": rank, "RANK_ID": rank, "DEVICE_ID": rank}
        for rank in ("0", "1")
    ]


@pytest.mark.parametrize("said", ["True", "true", "TRUE", " True ", "1"])
def test_mindspore_reads_the_rank_table_where_it_is_told_to(said):
    specs = plan(MindSporeLauncher, {**ONE_SERVER, "MS_RANKTABLE_ENABLE": said})
    assert {spec.environ["RANK_TABLE_FILE"] for spec in specs} == {str(PLACE.table_file)}


@pytest.mark.parametrize("said", ["", "False", "false", "0"])
def test_mindspore_asks_its_scheduler_where_it_is_told_to(said):
    specs = plan(MindSporeLauncher, {**ONE_SERVER, "MS_RANKTABLE_ENABLE": said})
    assert {spec.environ["RANK_TABLE_FILE"] for spec in specs} == {None}


@pytest.mark.parametrize("said", ["yes", "on", "2", "Ture"])
@pytest.mark.parametrize("launcher", [MindSporeLauncher, MsrunLauncher])
def test_another_word_for_the_rank_table_is_refused_by_name(launcher, said):
    fault = refusal(launcher, {**ONE_SERVER, "MS_RANKTABLE_ENABLE": said})
    assert fault.startswith("MS_RANKTABLE_ENABLE: expected True if ")
    assert repr(said) in fault


def test_mindspore_elsewhere_starts_workers_only():
    workers = plan(MindSporeLauncher, TWO_SERVERS, 1, port=9000)
    assert [(spec.rank, spec.local_rank) for spec in workers] == [(2, 0), (3, 1)]
    assert all(spec.environ["MS_SCHED_PORT"] == "9000" for spec in workers)


@pytest.mark.parametrize("launcher", [MindSporeLauncher, MsrunLauncher])
@pytest.mark.parametrize("node_rank", [0, 1])
def test_mindspore_gets_an_address_once_the_name_is_looked_up(launcher, node_rank):
    declared = declared_table(TWO_SERVERS)
    here = Here(node_rank, declared.entries[node_rank], PLACE)
    method = launcher(Boot(COMMAND, TWO_SERVERS, 3))
    by_name = method.plan(declared, here, 0)
    asked = {spec.host_names for spec in by_name}
    assert asked == {(HostName("w-0.j", is_here=node_rank == 0),)}
    known = replace(here, addresses={"w-0.j": "10.0.0.1"})
    for spec in method.plan(declared, known, 0):
        told = spec.environ.get("MS_SCHED_HOST") or spec.argv[3].removeprefix("--master_addr=")
        assert (told, spec.host_names) == ("10.0.0.1", ())


@pytest.mark.parametrize("launcher", [MindSporeLauncher, MsrunLauncher])
@pytest.mark.parametrize("environ", [ONE_SERVER, {**TWO_SERVERS, "VC_WORKER_HOSTS": "10.0.0.1,b"}])
def test_mindspore_looks_up_no_address(launcher, environ):
    assert {spec.host_names for spec in plan(launcher, environ)} == {()}


# msrun.


def test_msrun_on_two_servers():
    environ = {**TWO_SERVERS, "PATH": "/bin"}
    (spec,) = plan(MsrunLauncher, environ, 1, generation=2, command=("python", "/t.py", "a"))
    directory = "/m/log/modelarts-job-7/msrun/node_1/generation_2"
    assert spec.argv == (
        *("msrun", "--worker_num=4", "--local_worker_num=2", "--master_addr=w-0.j"),
        *("--node_rank=1", "--master_port=8118", f"--log_dir={directory}", "--join=True"),
        *("--cluster_time_out=600", "/t.py", "a"),
    )
    assert spec.workers == 2
    assert [(str(log.path), log.rank, log.local_rank) for log in spec.worker_logs] == [
        (f"{directory}/worker_2.log", 2, 0),
        (f"{directory}/worker_3.log", 3, 1),
    ]
    assert "PATH" not in spec.environ


def test_msrun_on_one_server_with_what_the_platform_says():
    environ = {**ONE_SERVER, "MSRUN_CLUSTER_TIME_OUT": "90", "MS_RANKTABLE_ENABLE": "True"}
    (spec,) = plan(MsrunLauncher, environ, port=9000)
    assert {
        *("--master_addr=127.0.0.1", "--master_port=9000", "--cluster_time_out=90"),
        f"--rank_table_file={PLACE.table_file}",
    } <= set(spec.argv)


def test_a_time_out_that_is_no_number_is_refused():
    for launcher in (MsrunLauncher, MindSporeLauncher):
        sentence = refusal(launcher, {**ONE_SERVER, "MSRUN_CLUSTER_TIME_OUT": "ten"})
        assert sentence == (
            "MSRUN_CLUSTER_TIME_OUT: expected seconds, or a number with its unit such as 250ms, "
            "90s, 5m, 1h, found 'ten'"
        )


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("600s", "600"),
        ("600 s", "600"),
        ("10m", "600"),
        ("1h", "3600"),
        ("1500ms", "2"),
        ("7", "7"),
    ],
)
def test_a_time_of_the_platform_may_have_its_unit(told, seconds):
    """ModelArts' own page writes 600s."""
    environ = {**ONE_SERVER, "MSRUN_CLUSTER_TIME_OUT": told}
    (msrun,) = plan(MsrunLauncher, environ)
    assert f"--cluster_time_out={seconds}" in msrun.argv
    for name in ("MSRUN_CLUSTER_TIME_OUT", "MS_TOPO_TIMEOUT"):
        scheduler, *_ = plan(MindSporeLauncher, {**ONE_SERVER, name: told})
        assert scheduler.environ["MS_TOPO_TIMEOUT"] == seconds
    (torchrun,) = plan(TorchrunLauncher, {**ONE_SERVER, "HCCL_CONNECT_TIMEOUT": told})
    assert torchrun.environ["HCCL_CONNECT_TIMEOUT"] == seconds


def test_a_limit_of_hccl_that_is_no_time_is_left_to_hccl():
    (spec,) = plan(TorchrunLauncher, {**ONE_SERVER, "HCCL_CONNECT_TIMEOUT": "for ever"})
    assert spec.environ["HCCL_CONNECT_TIMEOUT"] == "for ever"


@pytest.mark.parametrize(
    ("command", "words", "path"),
    [
        ("python t.py a", "t.py a", None),
        ("t.py a", "t.py a", None),
        ("python3 t.py", "python3 t.py", None),
        ("python -m pkg", "python -m pkg", None),
        ("/opt/bin/python t.py", "t.py", "/opt/bin:/bin"),
        ("/opt/bin/python3.11 -u t.py", "python -u t.py", "/opt/bin:/bin"),
    ],
)
def test_what_msrun_is_given_to_run(command, words, path):
    environ = {**ONE_SERVER, "PATH": "/bin"}
    (spec,) = plan(MsrunLauncher, environ, command=tuple(command.split()))
    assert spec.argv[-len(words.split()) :] == tuple(words.split())
    assert spec.argv[-len(words.split()) - 1].startswith("--")
    assert spec.environ.get("PATH") == path


def test_msrun_cannot_run_what_is_no_python_script():
    with pytest.raises(SettingsRefused, match="msrun starts Python scripts only, not 'bash'"):
        plan(MsrunLauncher, ONE_SERVER, command=("bash", "t.sh"))


NAMED = ["[ERROR] ME(1): Worker process 70 exit with exception. Error code: -9.", "and more"]
WORKERS = MsrunTestimony(
    PurePath("/d"),
    tuple(WorkerLog(PurePath(f"/d/worker_{n}.log"), n, n - 4) for n in (4, 5)),
    MindSporeWords(("pod-0", "pod-0", "pod-1", "pod-1", "pod-2", "pod-2"), "10.0.0.1"),
)


def worker_log(rank: int, head: bytes, tail: bytes = b"last words\n") -> Exhibit:
    return Exhibit(PurePath(f"worker_{rank}.log"), head, tail)


@pytest.mark.parametrize(
    ("ranks", "head"), [({70: 4}, b""), ({}, b"[INFO] ME(70,7f,python): x"), ({71: 5}, b"")]
)
def test_whom_msrun_names_is_known_by_his_pid(ranks, head):
    exhibits = [worker_log(5, b"(71,7f)"), worker_log(4, head)]
    culprit = WORKERS.culprit(NAMED, exhibits, ranks)
    assert culprit == Culprit(
        4, ExitStatus(None, 9), None, ("last words",), PurePath("/d/worker_4.log")
    )


ENDS_ITSELF = "[WARNING] DISTRIBUTED(1): [init.cc:135] operator()] Kill this process with SIGTERM."
MISSED = "[ERROR] DISTRIBUTED(9): UpdateTopoState] The node: 2 is timed out. It may exit with"
LOST = (
    "MindSpore ended it, for it had lost its cluster; look for what ended the scheduler, on "
    "10.0.0.1, or a rank on another server"
)
WHO = "MindSpore's scheduler had missed rank 2 before, on pod-1; look there for what ended it"


@pytest.mark.parametrize(
    ("lines", "heard", "reason"),
    [
        ([ENDS_ITSELF], [ENDS_ITSELF], LOST),
        ([ENDS_ITSELF], [ENDS_ITSELF, MISSED, MISSED.replace("2", "5")], WHO),
        ([MISSED], [MISSED], WHO),
        (
            [MISSED.replace("2", "9")],
            [],
            WHO.replace("2", "9").replace("pod-1", "a server that is not known"),
        ),
        (["ValueError: no"], [MISSED], None),
    ],
)
def test_why_mindspore_ends_a_process_is_in_its_words(lines, heard, reason):
    assert WORKERS.mindspore.reason(lines, heard) == reason


def test_why_mindspore_ended_a_worker_of_msrun_is_in_the_log_of_the_scheduler():
    scheduler = Exhibit(PurePath("scheduler.log"), b"(9,7f)", MISSED.encode())
    worker = worker_log(4, b"(70,7f)", ENDS_ITSELF.encode())
    culprit = WORKERS.culprit(NAMED, [scheduler, worker], {})
    assert culprit is not None
    assert (culprit.rank, culprit.reason) == (4, WHO)


def test_the_scheduler_of_msrun_is_no_rank():
    scheduler = Exhibit(PurePath("scheduler.log"), b"(70,7f)", MISSED.encode())
    culprit = WORKERS.culprit(NAMED, [scheduler], {71: 5})
    assert culprit is not None
    assert culprit.rank is None


def test_whom_msrun_names_may_be_unknown():
    assert WORKERS.culprit(NAMED, [], {}) == Culprit(None, ExitStatus(None, 9), None, tuple(NAMED))
    assert WORKERS.culprit(["it failed otherwise"], [], {}) is None


# mpirun.

TOOLS = Tools(
    head=("python3", "mpirun_head.py"),
    node=("python3", "mpirun_node.py"),
    mpirun="/bin/mpirun",
    sshd="/sbin/sshd",
    sshd_config="Port {{MY_SSHD_PORT}}\n",
    sshd_config_path="/h/etc/ssh/sshd_config",
    is_root=False,
    wait=60.0,
)


def mpirun(tools: Tools = TOOLS) -> Callable[[Boot], MpirunLauncher]:
    return lambda boot: MpirunLauncher(boot, tools)


def test_mpirun_on_the_first_of_two_servers():
    environ = {
        **TWO_SERVERS,
        "PATH": "/bin",
        "OTHER": "x",
        "CREDENTIAL": "a b;=",
        "MY_MPI_SLOTS": "3",
    }
    sshd, main = plan(mpirun(), environ, generation=1)
    assert (sshd.speaks_for_ranks, main.speaks_for_ranks) == (False, True)
    home = "/m/log/modelarts-job-7/mpirun"
    assert sshd.argv == (
        *("/sbin/sshd", "-D", "-e", "-f", f"{home}/sshd_config.node_0", "-p", "36666"),
    )
    assert sshd.files == {PurePath(f"{home}/sshd_config.node_0"): b"Port 36666\n"}
    assert not sshd.significant
    assert main.workers == 0  # none that leads a session
    hostfile = f"{home}/generation_1/hostfile"
    assert main.argv == (
        *("python3", "mpirun_head.py", "--port", "36666", "--wait", "60"),
        *("--job", "modelarts-job-7-0949ee80", "--slots", "3", "--hostfile", hostfile),
        *("w-0.j", "w-1.j"),
        *("--", "/bin/mpirun", "-np", "6", "-hostfile", hostfile),
        *("-mca", "plm_rsh_args", "-p 36666", "-bind-to", "none", "-map-by", "slot"),
        *("-x", "NCCL_DEBUG=INFO", "-x", "NCCL_SOCKET_IFNAME=eth0,bond0"),
        *("-x", "NCCL_SOCKET_FAMILY=AF_INET", "-x", "HOROVOD_MPI_THREADS_DISABLE=1"),
        *("-mca", "pml", "ob1", "-mca", "btl", "^openib", "-mca", "plm_rsh_no_tree_spawn", "true"),
        *("-x", "CREDENTIAL", "-x", "MA_NUM_GPUS", "-x", "MA_NUM_HOSTS", "-x", "PATH"),
        *("-x", "VC_WORKER_HOSTS", *COMMAND),
    )


def test_a_later_start_of_mpirun_does_not_share_the_directory_of_an_earlier_one():
    table = declared_table(ONE_SERVER)
    here = Here(0, table.entries[0], replace(PLACE, start=StartCount(1, 2)))
    (main,) = mpirun()(Boot(COMMAND, ONE_SERVER, 3, None)).plan(table, here, 0)
    (directory,) = main.directories
    assert directory.name == "s1-p2-generation_0"


@pytest.mark.parametrize(
    ("name", "is_forwarded"),
    [
        ("SHARED_STORE", True),
        ("MY_SHARED_STORE", True),
        ("PATHS", True),
        ("MY_PATH", False),
        ("TMA_X", False),
        ("SHARED", False),
    ],
)
def test_mpirun_forwards_the_published_names(name, is_forwarded):
    """Only SHARED_ may stand anywhere in a name."""
    (main,) = plan(mpirun(), {**ONE_SERVER, name: "x"})
    assert (name in main.argv) == is_forwarded


def test_mpirun_hands_on_what_the_user_added():
    names = frozenset({"ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "PATH"})
    environ = {**ONE_SERVER, "PATH": "/bin", "LD_LIBRARY_PATH": "/lib"}
    (main,) = plan(lambda boot: mpirun()(replace(boot, handed_on=names)), environ)
    handed_on = [main.argv[at + 1] for at, word in enumerate(main.argv) if word == "-x"]
    assert handed_on[4:] == [
        *("LD_LIBRARY_PATH", "ASCEND_HOME_PATH", "MA_NUM_GPUS", "MA_NUM_HOSTS", "PATH")
    ]


def test_mpirun_soon_gives_up_a_server_whose_network_is_cut_unless_told_otherwise():
    keepalive = "OMPI_MCA_oob_tcp_keepalive_time"
    _, main = plan(mpirun(), TWO_SERVERS)
    assert main.environ[keepalive] == "30"
    _, main = plan(mpirun(), {**TWO_SERVERS, keepalive: "300"})
    assert main.environ[keepalive] == "300"


def test_mpirun_on_the_other_server_waits_for_the_first():
    sshd, main = plan(mpirun(), {**TWO_SERVERS, "MY_SSHD_PORT": "7022"}, 1)
    assert not main.speaks_for_ranks  # what its ranks write comes out of mpirun, on the first
    assert main.argv == (
        *("python3", "mpirun_node.py", "--port", "7022", "--wait", "60"),
        *("--job", "modelarts-job-7-ab4b7c8a", "w-0.j"),
    )
    assert sshd.argv[-1] == "7022"


def test_all_servers_of_mpirun_name_the_files_of_the_job_alike_and_other_jobs_otherwise():
    def names(**changed: str) -> set[str]:
        mains = [plan(mpirun(), {**TWO_SERVERS, **changed}, node)[1].argv for node in (0, 1)]
        return {argv[argv.index("--job") + 1] for argv in mains}

    usual, other_port = names(), names(MY_SSHD_PORT="7022")
    other_machines = names(VC_WORKER_HOSTS="v-0.j,v-1.j")
    assert len(usual) == len(other_port) == len(other_machines) == 1
    assert len(usual | other_port | other_machines) == 3


def test_mpirun_alone_needs_no_sshd():
    (main,) = plan(mpirun(replace(TOOLS, sshd=None)), ONE_SERVER)
    assert "-np" in main.argv
    assert "127.0.0.1" in main.argv


@pytest.mark.parametrize(
    ("missing", "refused", "sentence"),
    [
        (replace(TOOLS, mpirun=None), CommandNotFound, "mpirun was not found in PATH"),
        (replace(TOOLS, sshd=None), CommandNotFound, "sshd was not found"),
        (replace(TOOLS, sshd_config=None), SettingsRefused, "there is no /h/etc/ssh/sshd_config"),
    ],
)
def test_what_mpirun_lacks_is_said(missing, refused, sentence):
    with pytest.raises(refused, match=sentence):
        plan(mpirun(missing), TWO_SERVERS)


@pytest.mark.parametrize("name", ["MY_SSHD_PORT", "MY_MPI_SLOTS"])
def test_what_is_no_number_is_refused_by_mpirun(name):
    assert refusal(mpirun(), {**TWO_SERVERS, name: "x"}).startswith(f"{name}: expected a whole")


@pytest.mark.parametrize(
    ("words", "rank", "status"),
    [
        ("  Process name: [[55813,1],2]\n  Exit code:    9", 2, ExitStatus(9)),
        (
            "process rank 3 with PID 0 on node vm exited on signal 9 (Killed).",
            3,
            ExitStatus(None, 9),
        ),
    ],
)
def test_whom_mpirun_names(words, rank, status):
    lines = ["a word of a rank", "-" * 74, *words.splitlines(), "-" * 74]
    culprit = MpirunTestimony(PurePath("/d")).culprit(lines, [], {})
    assert culprit == Culprit(rank, status, None, ("a word of a rank",))


# torch-ddp.


def test_torch_ddp_on_one_server():
    (spec,) = plan(TorchDdpLauncher, {"MA_NUM_HOSTS": "1"})
    assert spec.argv == (*COMMAND, "--init_method", "tcp://127.0.0.1:29500")


def test_torch_ddp_on_two_servers_counts_servers():
    (spec,) = plan(TorchDdpLauncher, TWO_SERVERS, 1, port=6000)
    assert spec.argv == (
        *COMMAND,
        *("--init_method", "tcp://w-0.j:6000", "--rank", "1", "--world_size", "2"),
    )
    assert spec.rank == 1


def test_an_address_of_ipv6_stands_in_brackets():
    (spec,) = plan(TorchDdpLauncher, {"MA_NUM_HOSTS": "2", "VC_WORKER_HOSTS": "fd00::1,fd00::2"})
    assert "tcp://[fd00::1]:29500" in spec.argv


# tensorflow.

TENSORFLOW = {**TWO_SERVERS, "TF_PS_HOSTS": "p-0:5000,p-1:5001", "TF_WORKER_HOSTS": "w-0:6,w-1:7"}


def words(task: str) -> tuple[str, ...]:
    return (
        *("--task_index", "1", "--ps_hosts", "p-0:5000,p-1:5001", "--worker_hosts", "w-0:6,w-1:7"),
        *("--job_name", task),
    )


def test_tensorflow_alone_is_the_command():
    (spec,) = plan(TensorFlowLauncher, {**TENSORFLOW, "MA_NUM_HOSTS": "1"})
    assert spec.argv == COMMAND


def test_tensorflow_on_two_servers_is_a_ps_and_a_worker_on_each():
    server, worker = plan(TensorFlowLauncher, TENSORFLOW, 1)
    assert (server.argv, worker.argv) == ((*COMMAND, *words("ps")), (*COMMAND, *words("worker")))
    assert (server.significant, worker.significant) == (False, True)
    assert (server.name, worker.name) == ("ps 1", "rank 1")
    assert server.log != worker.log


@pytest.mark.parametrize("task", ["ps", "worker"])
def test_tensorflow_starts_only_what_its_task_names(task):
    (spec,) = plan(TensorFlowLauncher, {**TENSORFLOW, "MA_TASK_NAME": task}, 1)
    assert spec.argv == (*COMMAND, *words(task))
    assert spec.significant


@pytest.mark.parametrize("name", ["TF_PS_HOSTS", "TF_WORKER_HOSTS"])
def test_tensorflow_without_addresses_is_refused(name):
    assert refusal(TensorFlowLauncher, {**TENSORFLOW, name: ""}).startswith(f"{name} is not set: ")
