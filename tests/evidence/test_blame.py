"""Who is to blame, and where to look: by the words of real failures, shortened."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.evidence.blame import blame, explained
from ascend_supervisor.evidence.communication import ALL_RANKS
from ascend_supervisor.outcome import ExitStatus, Failure
from tests.running import DEADLINE_SECONDS

OWN, CONSEQUENCE, UNKNOWN = Blame.OWN, Blame.CONSEQUENCE, Blame.UNKNOWN
LOST = "a consequence: it lost the connection to another rank; look at "
WAITED = "a consequence: it waited in vain for another rank; look at "
NO_STORE = "a consequence: it did not reach the rendezvous, which rank 0 serves; look at rank 0"

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    main()\n'
HANDLING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
CLOSED = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[10.64.77.53]:34971"
)
HCCL = (
    "RuntimeError: InnerRunOpApi:torch_npu/csrc/framework/OpParamMaker.cpp:281 OPS function error: "
    "HcclAllreduce, error code is 6\n"
    "[ERROR] 2025-04-08-18:07:20 (PID:1292363, Device:1, RankID:1) ERR01100 OPS call acl api failed"
)


def failure(words: str = "", **more) -> Failure:
    return Failure(
        name="rank 1",
        rank=1,
        generation=0,
        status=more.pop("status", ExitStatus(1)),
        runtime_seconds=1.0,
        last_lines=tuple(words.split("\n")),
        **more,
    )


@pytest.mark.parametrize(
    ("words", "expected", "meaning"),
    [
        # gloo and c10d
        (FRAMES + CLOSED, CONSEQUENCE, LOST + "the ranks on 10.64.77.53"),
        (CLOSED, CONSEQUENCE, LOST + "the ranks on 10.64.77.53"),
        (FRAMES + CLOSED.replace("10.64.77.53", "127.0.0.1"), CONSEQUENCE,
         LOST + "the ranks on this server"),
        (FRAMES + "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error "
         "[192.168.70.92]:25266: Connection reset by peer", CONSEQUENCE,
         LOST + "the ranks on 192.168.70.92"),
        (FRAMES + "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:"
         "81] Timed out waiting 1800000ms for recv operation to complete", CONSEQUENCE,
         WAITED + ALL_RANKS),
        (FRAMES + "RuntimeError: Application timeout caused pair closure", CONSEQUENCE,
         LOST + ALL_RANKS),
        (FRAMES + "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/"
         "transport/tcp/pair.cc:144] no error", CONSEQUENCE, LOST + ALL_RANKS),
        (FRAMES + "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors "
         "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.",
         CONSEQUENCE, WAITED + "rank 0"),
        (FRAMES + "RuntimeError: [Rank 0]: Ranks 3, 5 failed to pass monitoredBarrier in 5000 ms",
         CONSEQUENCE, WAITED + "rank 3, 5"),
        (FRAMES + "torch.distributed.DistNetworkError: The client socket has timed out after "
         "60000ms while trying to connect to (10.0.0.3, 29500).", CONSEQUENCE, NO_STORE),
        (FRAMES + "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for "
         "clients. 3/4 clients joined.", CONSEQUENCE, NO_STORE),
        (FRAMES + "RuntimeError: Socket Timeout", CONSEQUENCE, NO_STORE),
        # NCCL and its like
        (("terminate called after throwing an instance of 'c10::DistBackendError'\n"
         "  what():  [Rank 6] Watchdog caught collective operation timeout: WorkHCCL(SeqNum=880, "
         "OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800902 milliseconds before timing out."),
         CONSEQUENCE, WAITED + ALL_RANKS),
        (FRAMES + "torch.distributed.DistBackendError: NCCL error, remote process exited or there "
         "was a network error", CONSEQUENCE, LOST + ALL_RANKS),
        (FRAMES + "RuntimeError: HCCL OP RETRY FAILED", CONSEQUENCE, LOST + ALL_RANKS),
        (FRAMES + "RuntimeError: create:torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64 HCCL "
         "function error: HcclCommInitRootInfo(...), error code is 9", CONSEQUENCE,
         WAITED + ALL_RANKS),
        (("[ERROR] DISTRIBUTED(162146,ffffb85d0c80,python):2025-03-10-09:40:25.507.237 "
         "[tcp_comm.cc:98] The connection from 10.0.0.8:8118 is closed."), CONSEQUENCE,
         LOST + ALL_RANKS),
        # Errors of the script, of its data, of memory
        (FRAMES + "ValueError: no such file", OWN, None),
        (FRAMES + "FileNotFoundError: [Errno 2] No such file or directory: 'x'", OWN, None),
        (FRAMES + "ModuleNotFoundError: No module named 'mindspeed'", OWN, None),
        ('  File "train.py", line 3\n    def\n       ^\nSyntaxError: invalid syntax', OWN, None),
        (FRAMES + "AssertionError", OWN, None),
        (FRAMES + "KeyError: 'loss'", OWN, None),
        (FRAMES + "OSError: [Errno 28] No space left on device", OWN, None),
        (FRAMES + "MemoryError", OWN, None),
        (FRAMES + "RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB (NPU 3; 60.96 GiB "
         "total capacity)", OWN, None),
        (FRAMES + "torch.OutOfMemoryError: CUDA out of memory.", OWN, None),
        (FRAMES + "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.", OWN,
         None),
        (FRAMES + "RuntimeError: Expected all tensors to be on the same device, but found at least "
         "two devices, npu:0 and cpu!", OWN, None),
        (FRAMES + "RuntimeError: Error(s) in restoring the model: size mismatch", OWN, None),
        ("terminate called after throwing an instance of 'std::bad_alloc'", OWN, None),
        # An error of its own, and what a rank then writes while it is taken down
        (FRAMES + "ValueError: nan\n[rank1]:[W1122 TCPStore.cpp:106] [c10d] sendBytes failed on "
         "SocketImpl(fd=51, remote=[localhost]:29500): Broken pipe", OWN, None),
        (FRAMES + "ValueError: nan" + HANDLING + FRAMES + CLOSED, OWN, None),
        (FRAMES + CLOSED + HANDLING + FRAMES + "KeyError: 'loss'", CONSEQUENCE,
         LOST + "the ranks on 10.64.77.53"),
        (FRAMES + "ValueError: nan\nException ignored in: <function Group.__del__ at 0x7f>\n"
         + FRAMES + CLOSED, OWN, None),
        (FRAMES + "KeyError: 'retried'\nepoch 3\n" + FRAMES + CLOSED, CONSEQUENCE,
         LOST + "the ranks on 10.64.77.53"),
        ("[rank1]: " + FRAMES.replace("\n", "\n[rank1]: ") + CLOSED + "\n[rank0]: "
         + FRAMES.replace("\n", "\n[rank0]: ") + "ValueError: nan", CONSEQUENCE,
         LOST + "the ranks on 10.64.77.53"),
        (FRAMES + "ValueError: nan\n" + FRAMES + "torch.distributed.elastic.multiprocessing.errors."
         "ChildFailedError: \n=====\ntrain.py FAILED", OWN, None),
        ("╭─ Traceback (most recent call last) ─╮\n│ a.py:3 │\n╰────────────╯\nKeyError: 1", OWN,
         None),
        # A warning of a connection that was then made in another way
        (("[W1122 03:41:43 socket.cpp:697] [c10d] The client socket has timed out after 1ms while "
         "trying to connect to (::1, 29500)\nstep 1"), UNKNOWN, None),
        # Nobody knows
        ("", UNKNOWN, None),
        ("loss is nan", UNKNOWN, None),
        (FRAMES + "KeyboardInterrupt", UNKNOWN, None),
        (FRAMES + "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='obs')", UNKNOWN,
         None),
        (FRAMES + "BrokenPipeError: [Errno 32] Broken pipe", UNKNOWN, None),
        (FRAMES + "RuntimeError: ACL stream synchronize failed, error code:507035", UNKNOWN,
         ("CANN's return code 507035: an operator failed on the vector core; look at the operator "
         "and its input in the rank's plog")),
        # A connection to a storage service
        (FRAMES + "ConnectionResetError: [Errno 104] Connection reset by peer", UNKNOWN, None),
        (FRAMES + "requests.exceptions.ConnectionError: ('Connection aborted.', "
         "ConnectionResetError(104, 'Connection reset by peer'))", UNKNOWN, None),
        (FRAMES + "urllib3.exceptions.ProtocolError: Connection closed by remote peer", UNKNOWN,
         None),
        (FRAMES + "RuntimeError: obs://hccl/nccl.tar: Connection reset by peer", UNKNOWN, None),
        ("wget: read error: Connection reset by peer", UNKNOWN, None),
        # What connects ranks may have few words
        (('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n  File "/usr/'
         'lib/python3/site-packages/torch/distributed/rendezvous.py", line 86, in _env\n'
         "RuntimeError: Connection reset by peer"), CONSEQUENCE, LOST + ALL_RANKS),
        (FRAMES + "subprocess.CalledProcessError: Command 'x' returned 1", UNKNOWN, None),
        # With a code of CANN
        (FRAMES + HCCL + "\nEI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting socket "
         "times out. Reason: Remote Rank did not send the data in time.", CONSEQUENCE,
         ("EI0006: HCCL got no connection to another rank (the limit is HCCL_CONNECT_TIMEOUT), a "
         f"consequence: look at {ALL_RANKS}")),
        (("EI0006: Getting socket times out. Reason: srcRank (server 10.0.0.1, device ID 1) fails "
         "to connect to dstRank (server 10.0.0.2, device ID 0)."), CONSEQUENCE,
         ("EI0006: HCCL got no connection to another rank (the limit is HCCL_CONNECT_TIMEOUT), a "
         "consequence: look at device 0 of server 10.0.0.2")),
        (("EI0002: [PID: 7277] The wait execution of the Notify register times out. Reason: The "
         "Notify register has not received the Notify record from remote rank [5].base info"),
         CONSEQUENCE,
         ("EI0002: a collective waited in vain for another rank (the limit is HCCL_EXEC_TIMEOUT), "
         "a consequence: look at rank 5")),
        (("EI0009: [PID: 2225827] Transport init error. Reason: [Create][DestLink]Create Dest "
         "error! createLink para:rank[1]-localUserrank[1]-localIpAddr[172.16.0.114], "
         "dst_rank[0]-remoteUserrank[0]-remote_ip_addr[172.16.0.115]"), CONSEQUENCE,
         ("EI0009: HCCL could not set up the link to another rank's device, a consequence: look at "
         "rank 0, on 172.16.0.115")),
        (FRAMES + "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/"
         "ProcessGroupHCCL.cpp:64\nEJ0001: 2024-05-21-11:57:54.167.645 Failed to initialize the "
         "HCCP process. Reason: Maybe the last training process is running.", OWN,
         ("EJ0001: HCCP did not start: another process may hold the NPU; give each rank its own "
         "NPU, end other processes on /dev/davinci*, and wait 10 s (--release-delay)")),
        (FRAMES + "RuntimeError: x\nEE9999: Inner Error!", UNKNOWN,
         "EE9999: CANN's runtime failed; look at the first [ERROR] in the rank's plog"),
        (FRAMES + HCCL + "\nEE9999: Inner Error!", UNKNOWN,
         "EE9999: CANN's runtime failed; look at the first [ERROR] in the rank's plog"),
        (FRAMES + HCCL + "\nEE9999: Inner Error!\nnotify wait timeout", CONSEQUENCE,
         WAITED + ALL_RANKS),
    ],
)  # fmt: skip
def test_who_is_to_blame_and_where_to_look(words, expected, meaning):
    found = explained(failure(words))
    assert (blame(failure(words)), blame(found), found.meaning) == (expected, expected, meaning)


def test_a_rank_that_used_up_the_memory_is_the_cause():
    assert blame(failure(CLOSED, oom_killed=True)) is OWN
    assert explained(failure(CLOSED, oom_killed=True)).meaning is None


def test_what_a_framework_says_of_a_missed_rank_is_enough():
    told = failure(FRAMES + "ValueError", reason="MindSpore's scheduler had missed rank 8 before")
    assert blame(told) is CONSEQUENCE
    assert explained(told) == told


def test_an_error_file_tells_where_the_log_tells_nothing():
    assert blame(failure(exception="ValueError: nan")) is OWN
    lost = failure(exception=CLOSED)
    assert blame(lost) is CONSEQUENCE
    assert explained(lost).meaning == LOST + "the ranks on 10.64.77.53"


HCCL_ERROR = "[ERROR] HCCL(1,python3):2025-07-23-03:49:57.177.194 [hccl_socket_manager.cc:778] [2]"
PLOG = (
    f"{HCCL_ERROR}[Wait][LinkEstablish]wait socket establish timeout, role[1] rank[12]",
    f"{HCCL_ERROR}   |  dest_ip(user_rank)  |   dest_port   |  src_ip(user_rank)   |   Status   |",
    f"{HCCL_ERROR}   |   10.20.0.29(27)   |  16666  |   10.20.0.2(0)   |  time out | LinkInfo",
)


def test_the_plog_tells_what_the_words_do_not():
    silent = failure("", status=ExitStatus(None, 6))
    found = explained(silent, PLOG)
    assert (found.code, blame(found)) == ("EI0006", CONSEQUENCE)
    assert found.meaning is not None
    assert found.meaning.endswith("a consequence: look at rank 27, on 10.20.0.29")


def test_the_plog_says_more_than_an_inner_error():
    inner = failure(FRAMES + HCCL + "\nEE9999: Inner Error!")
    assert explained(inner, PLOG).code == "EI0006"


@pytest.mark.parametrize(
    "words", [FRAMES + "ValueError: nan", "EI0004: The ranktable or rank is invalid"]
)
def test_the_plog_does_not_outweigh_clear_words(words):
    clear = failure(words)
    assert explained(clear, PLOG) == explained(clear)


HOSTILE = (
    "dst_rank[1]" * 900,
    "peer [" * 2000,
    "gloo/transport/] " * 600,
    "Connection closed by peer [" + "a" * 9000,
    '  File "x", line 1' * 500,
    "Ranks 1" + ", 2" * 3000,
    "|" + " " * 9000 + "(",
    " " * 9000,
    "[rank1]: " * 1000,
    "[a1]:" * 2000,
    "(a pid=1) " * 900,
    "HCCL " * 1800,
    "\x1b[1;" * 1500,
    "error: " * 1300,
    "  + " + "-" * 9000,
    "Process " + "a" * 9000 + ":",
    "error code is 5070" * 500,
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("line", HOSTILE)
@pytest.mark.parametrize("before", ["", FRAMES, "Traceback (most recent call last):\n"])
def test_no_line_keeps_the_search_for_long(line, before):
    """Searches that are not linear would take minutes for these."""
    told = replace(failure("\n".join([before + line] * 64)), is_shared=not before)
    found: list[Blame] = []
    search = threading.Thread(
        target=lambda: found.append(blame(explained(told, [line * 300] * 30))), daemon=True
    )
    search.start()
    search.join(DEADLINE_SECONDS)
    assert found


TEXT = st.lists(
    st.sampled_from([*FRAMES.split("\n"), CLOSED, HANDLING.strip(), "ValueError: x", "EI0006: x"])
    | st.text(max_size=80),
    max_size=30,
)


@given(TEXT, TEXT)
def test_whatever_was_written_there_is_an_answer_of_one_line(lines, plog):
    told = replace(failure(), last_lines=tuple(lines))
    found = explained(told, plog)
    assert blame(found) in Blame
    assert found.meaning is None or "\n" not in found.meaning
    assert (found.meaning is None) or blame(found) is not OWN or found.code is not None


@pytest.mark.parametrize(
    "words",
    [
        "OSError: [Errno 113] No route to host",
        "OSError: [Errno 101] Network is unreachable",
        "OSError: [Errno 107] Transport endpoint is not connected",
        "OSError: [Errno 116] Stale file handle",
        "socket.timeout: timed out",
        "socket.gaierror: [Errno -2] Name or service not known",
        "RuntimeError: Broken pipe",
        "RuntimeError: SUSPECT REMOTE ERROR",
        "RuntimeError: FORCE STOP",
        "RuntimeError: Sync Stream failed",
        "zmq.error.Again: Resource temporarily unavailable",
        "some.library.UnheardOfError: it broke",
    ],
)
def test_what_a_lost_server_may_have_caused_is_not_blamed_on_this_one(words):
    """A wrong guess would end a job that the cluster could recover."""
    assert blame(failure(FRAMES + words)) is not Blame.OWN


def test_an_exception_that_was_handled_is_not_what_a_signal_has_ended():
    handled = FRAMES + "KeyError: 'lr'\nstep 12"
    assert blame(failure(handled)) is Blame.OWN
    died = replace(failure(handled), status=ExitStatus(None, 6))
    assert blame(died) is Blame.UNKNOWN


def test_an_error_in_the_plog_that_the_rank_survived_does_not_blame_it():
    survived = ["[ERROR] RUNTIME(7,python): halMemAlloc failed"]
    found = explained(failure("EZ9999: Inner Error!"), survived)
    assert found.code == "EL0004"
    assert blame(found) is Blame.UNKNOWN


@pytest.mark.parametrize(
    "words",
    [
        CLOSED,
        FRAMES + CLOSED,
        FRAMES + "RuntimeError: Socket Timeout",
        FRAMES + "RuntimeError: HCCL function error: HcclCommInitRootInfo, error code is 9",
        "EI0006: [PID: 7] Getting socket times out. Reason: Remote Rank did not send the data",
        "EI0002: [PID: 7] The Notify register has not received the record from remote rank [0].",
        "[rank0]:[E1] ProcessGroupHCCL.cpp Watchdog caught collective operation timeout",
    ],
)
def test_with_one_rank_there_is_no_other_rank_whatever_the_words(words):
    told = replace(failure(words), is_alone=True)
    found = explained(told)
    assert blame(told) is UNKNOWN
    assert blame(found) is UNKNOWN
    assert "a consequence" not in (found.meaning or "")
    assert "another rank" not in (found.meaning or "")


def test_a_rank_that_is_named_by_its_number_is_another_rank():
    found = explained(replace(failure("", status=ExitStatus(None, 6)), is_alone=True), PLOG)
    assert blame(found) is CONSEQUENCE
