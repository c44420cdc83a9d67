"""Which cause of several a failure has, and what a consequence points at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.evidence.blame import blame
from ascend_supervisor.evidence.communication import _WHAT
from ascend_supervisor.evidence.diagnosed import OUT_OF_MEMORY, diagnosis_of
from ascend_supervisor.outcome import ExitStatus, Failure, Worker

LINK = (
    "EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time, "
    "remote rank:[5]"
)
ERROR = "[ERROR] RUNTIME(1,python):2026-11-26-10:00:00.000.001 [engine.cc:1] 1 Report: "


def failure(*lines: str, status: int = 1, **more: object) -> Failure:
    one = Failure("rank 3", 3, 0, ExitStatus.of(status), 1.0, last_lines=lines)
    return replace(one, **more)


def told(failure: Failure, plog: Sequence[str] = ()) -> Diagnosis:
    found = diagnosis_of(failure, plog)
    assert found is not None
    return found


def raising(line: str) -> tuple[str, ...]:
    return "Traceback (most recent call last):", '  File "train.py", line 1, in <module>', line


def test_a_code_is_told_in_two_languages_with_what_to_do():
    found = told(failure("EJ0001: Failed to initialize the HCCP process."))
    assert (found.id, found.layer, found.is_consequence, found.rank) == (
        "EJ0001",
        "device",
        False,
        3,
    )
    assert found.told("en").startswith("HCCP did not start: another process may hold the NPU")
    assert found.told("zh").startswith("HCCP 进程未能启动：NPU 可能被另一进程占用；确认")
    assert found.see == "docs/causes.md#ej0001"


def test_what_nccl_calls_a_warning_is_an_error():
    said = "include/shm.h:28 NCCL WARN Call to posix_fallocate failed: No space left on device"
    assert told(failure(said, "[WARNING] Too many open files")).id == "shared-memory-full"


def test_a_consequence_points_at_the_peer_that_is_named():
    found = told(failure(LINK))
    assert (found.id, found.is_consequence, found.rank) == ("EI0006", True, 5)
    assert (found.remedy, found.remedy_zh) == ("look at rank 5", "查看 rank 5")


def test_without_a_name_the_table_says_where_to_look():
    found = told(failure("EI0006: Getting socket times out."))
    assert found.rank is None
    assert "all servers" in found.remedy


def test_a_job_of_one_rank_has_lost_no_peer():
    assert diagnosis_of(failure("EI0006: Getting socket times out.", is_alone=True)) is None


def test_what_leads_to_the_others_is_the_cause():
    raised = raising("RuntimeError: stream sync failed, error code is 507054")
    assert told(failure(*raised)).id == "507054"


def test_what_is_known_without_words_is_in_the_table():
    assert told(failure(oom_killed=True, status=-9)).id == "oom-killed"
    assert told(failure(memory="memory ran out", status=1)).id == "oom-killed"
    assert told(failure(reason="the scheduler missed rank 1")).id == "lost-peer"
    assert {OUT_OF_MEMORY, *_WHAT} <= CAUSES.keys()


def test_what_a_rank_has_survived_is_no_cause():
    healthy = [f"step {step} loss 2.1" for step in range(500)]
    full = "cannot write the cache: No space left on device"
    assert diagnosis_of(failure(full, *healthy)) is None
    assert told(failure(*healthy, full)).id == "disk-full"


def test_of_a_plog_only_errors_count_and_only_where_the_output_says_nothing():
    warned = [ERROR.replace("ERROR", "WARNING") + "EL0001: no device"]
    assert diagnosis_of(failure("bye"), warned) is None
    plog = [ERROR + "EL0001: no device", ERROR + "EI0004: the rank table"]
    assert told(failure("bye"), plog).id == "EL0001"
    assert told(failure("EJ0001: busy"), plog).id == "EJ0001"


@pytest.mark.parametrize(("signal", "known"), [(2, None), (9, "killed"), (15, None)])
def test_of_a_signal_from_outside_the_words_tell_nothing(signal, known):
    found = diagnosis_of(failure("EJ0001: busy", status=-signal))
    assert (found and found.id) == known


def test_a_status_in_which_a_shell_tells_of_sigkill_is_known_unless_words_say_more():
    assert told(failure("step 7", status=137)).id == "killed"
    assert told(failure("EJ0001: busy", status=137)).id == "EJ0001"
    assert told(failure("EJ0001: busy", status=-6)).id == "EJ0001"


REFUSED = (
    "ValueError: Unsupported device target Ascend. This process only supports one of the ['CPU']."
)
NO_LIBRARY = (
    "[WARNING] ME(1,python):2026-11-26 Load dynamic library: libmindspore_ascend.so.2 failed. "
    "libge_runner.so: cannot open shared object file"
)


def test_a_warning_tells_the_cause_where_it_has_led_to_the_end():
    assert told(failure(*raising(REFUSED))).id == "device-target-unsupported"
    assert told(failure(NO_LIBRARY, *raising(REFUSED))).id == "cann-library-missing"
    assert diagnosis_of(failure(NO_LIBRARY, "bye", status=3)) is None


def test_what_a_logger_marks_as_information_is_no_failure():
    assert diagnosis_of(failure(NO_LIBRARY.replace("WARNING", "INFO"), "bye", status=3)) is None


@pytest.mark.parametrize("number", ["4294967295", "9" * 30])
def test_a_number_that_no_rank_has_is_none(number):
    found = told(failure(f"EI0006: Getting socket times out, remote rank:[{number}]"))
    assert found.rank is None
    assert number not in found.remedy


def test_memory_that_ran_out_comes_after_words_that_tell_another_cause():
    raised = raising("ValueError: bad value")
    assert told(failure(*raised, memory="memory ran out")).id == "refused-value"
    killed = raising("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.")
    assert told(failure(*killed, memory="memory ran out")).id == "oom-killed"
    assert diagnosis_of(failure("bye", memory="memory ran out", status=-15)) is None


def test_a_warning_of_a_lost_peer_is_none_in_a_job_of_one_rank():
    warned = "[WARNING] serverId[192.0.2.10], deviceId[0], Heartbeat Lost Occurred"
    synced = "rtStreamSynchronize execute failed, reason=[the model stream execute failed]"
    assert told(failure(warned, synced)).id == "hccl-heartbeat-lost"
    assert told(failure(warned, synced, is_alone=True)).id == "model-stream-failed"


def test_a_lost_peer_comes_after_the_cause_in_the_ranks_own_plog():
    lost = raising(
        "RuntimeError: [gloo/transport/tcp/pair.cc:1] Connection closed by peer [10.0.0.7]"
    )
    assert told(failure(*lost)).id == "lost-peer"
    assert told(failure(*lost), [ERROR + "EL0004: out of memory"]).id == "EL0004"


def test_of_what_a_rank_has_started_itself_the_worker_is_named():
    one = failure(*raising("ValueError: bad"), worker=Worker(1, ExitStatus(1)), is_shared=True)
    assert told(replace(one, rank=None, name="the command")).rank == 1


@pytest.mark.parametrize(
    ("script", "file", "layer"),
    [
        ("/code/train.py", "/code/train.py", "user"),
        ("/code/train.py", "/code/model.py", "user"),
        ("/code/train.py", "/code/megatron/model.py", "unknown"),
        ("/code/train.py", "/vllm-workspace/vllm-ascend/vllm_ascend/ops.py", "unknown"),
        ("<string>", "<string>", "user"),
        ("<string>", "/code/model.py", "unknown"),
        ("/code/train.py", "/usr/lib/python3/dist-packages/yaml/reader.py", "unknown"),
        ("/opt/venv/lib/python3.11/site-packages/llm/train.py",
         "/opt/venv/lib/python3.11/site-packages/llm/model.py", "unknown"),
        ("/code/train.py", "/usr/lib/python3.11/json/decoder.py", "user"),
        ("/code/train.py", "/v/lib/python3.11/site-packages/torch/nn/functional.py", "user"),
        ("/code/train.py", "/v/lib/python3.11/site-packages/trl/trainer.py", "unknown"),
        ("/code/train.py", "<frozen importlib._bootstrap>", "user"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "line",
    ["TypeError: 'NoneType' object is not callable", "ZeroDivisionError: division by zero",
     "TypeError: f() takes 1 positional argument but 2 were given"],
)  # fmt: skip
def test_an_error_of_the_script_or_a_package_is_whose_file_raised_it(script, line, file, layer):
    """The words blame nobody: a package may be wrong, or what the script gave it.

    A package may be imported from its sources: only what stands beside the script is surely its.
    Python's own library and torch raise for whoever called them.
    """
    begin, _, raised = raising(line)
    run = f'  File "{script}", line 1, in <module>'
    found = told(failure(begin, run, f'  File "{file}", line 7, in work', raised))
    assert found.layer == layer
    assert "script" not in found.text


FRAMES = (
    "Traceback (most recent call last):",
    '  File "/code/train.py", line 90, in <module>',
    '  File "/code/data/set.py", line 12, in read',
    '  File "/v/lib/python3.11/site-packages/datasets/load.py", line 7, in load',
)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/a.json'", "file-missing"),
        ("KeyError: 'a'", "key-missing"),
    ],
)
def test_an_error_of_the_script_is_told_with_the_last_line_outside_of_packages(line, id_):
    found = told(failure(*FRAMES, line))
    assert found.text == f"{CAUSES[id_].text}, in /code/data/set.py, line 12"
    assert found.text_zh == f"{CAUSES[id_].text_zh}（/code/data/set.py 第 12 行）"


def test_a_failure_that_is_not_the_scripts_names_no_line_of_it():
    found = told(failure(*FRAMES, "OSError: [Errno 28] No space left on device"))
    assert found.text == CAUSES["disk-full"].text


def test_a_long_path_is_told_by_its_end_and_on_one_line():
    long = f'  File "/{"a" * 300}/\x1bset.py", line {"9" * 30}, in read'
    found = told(failure(FRAMES[0], FRAMES[1], long, "KeyError: 'a'"))
    assert found.text.endswith("set.py, line 999999999")
    assert len(found.text) < 250
    assert found.text.isprintable()


@pytest.mark.parametrize(
    ("line", "layer"),
    [
        ("zipfile.BadZipFile: File is not a zip file", None),
        ("zipfile.BadZipFile: File /data/a.zip is not a zip file", "user"),
        ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", None),
        (
            "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 9 column 5 (char 99)",
            "user",
        ),
        ("FileNotFoundError: nothing there", None),
        ("FileNotFoundError: Couldn't find file at https://a.example.org/a.py", None),
        ('yaml.scanner.ScannerError: not allowed here\n  in "a.yml", line 3, column 7', "user"),
        ("yaml.scanner.ScannerError: not allowed here\nINFO:/tmp/a.yml", None),
        ("FileNotFoundError: metadata.json", "user"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a'", "user"),
        ("DeepSpeedConfigError: no", None),
        ("DeepSpeedConfigError: train_batch_size must be set", "user"),
    ],
)
def test_a_type_claims_a_cause_only_if_its_message_names_something(line, layer):
    found = diagnosis_of(failure(*"\n".join(raising(line)).splitlines()))
    assert (found and found.layer) == layer


GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "


@pytest.mark.parametrize(
    ("line", "id_", "claims"),
    [
        (f"{GLOO}[127.0.1.1]:3210: Connection refused", "gloo-loopback", Blame.UNKNOWN),
        (f"{GLOO}[::1]:3210: Connection refused", "gloo-loopback", Blame.UNKNOWN),
        (f"{GLOO}[192.0.2.7]:3210: Connection refused", "lost-peer", Blame.CONSEQUENCE),
    ],
)
def test_who_cannot_connect_to_itself_has_lost_no_peer(line, id_, claims):
    one = failure(*raising(line))
    assert told(one).id == id_
    assert blame(one) is claims


WATCHDOG = (
    "[E1102 10:00:00.123 ProcessGroupHCCL.cpp:616] [Rank 3] Watchdog caught collective operation "
    "timeout: WorkHCCL(SeqNum=1)"
)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("requests.exceptions.ConnectionError: ('Connection aborted.', 1)", "http-cut"),
        ("ConnectionError: Couldn't reach https://a.example.org/a.py (error 104)",
         "http-unreachable"),
        ("RuntimeError: an own reason", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("later", [WATCHDOG, f"terminate called\n{WATCHDOG}"], ids=["at", "after"])
def test_what_a_watchdog_says_besides_an_exception_follows_from_it(line, id_, later):
    found = diagnosis_of(failure(*raising(line), *later.splitlines()))
    assert (found and found.id) == id_


@pytest.mark.parametrize(
    ("amounts", "id_"),
    [
        ("29.50 GiB total capacity; 6.18 MiB free; 1.26 GiB reserved in total", "npu-memory-held"),
        (
            "60.97 GiB total capacity; 1.02 GiB free; 58.8 GiB reserved in total",
            "npu-out-of-memory",
        ),
        ("60.97 GiB total capacity; 57.61 GiB already allocated", "npu-out-of-memory"),
    ],
)
def test_memory_that_is_neither_free_nor_its_own_is_held_by_others(amounts, id_):
    line = f"RuntimeError: NPU out of memory. Tried to allocate 20.00 MiB (NPU 0; {amounts})"
    assert told(failure(*raising(line))).id == id_
    assert told(failure(line, status=3)).id == id_


@pytest.mark.parametrize(("free", "id_"), [("3.1", "npu-memory-held"), ("57.2", "refused-value")])
def test_memory_that_is_mostly_free_is_held_by_nobody(free, id_):
    """The setting asks for more than there is: the sentence would send its reader elsewhere."""
    line = f"ValueError: Free memory on device ({free}/61.0 GiB) on startup is less than desired "
    assert told(failure(*raising(f"{line}GPU memory utilization (0.95, 57.9 GiB)."))).id == id_


CALL = (
    "RuntimeError: Initialize:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:217 NPU function "
    "error: at_npu::native::AclSetCompileopt(aclCompileOpt::ACL_PRECISION_MODE, precision_mode), "
    "error code is 500001"
)


@pytest.mark.parametrize(
    ("said", "id_"),
    [
        ("EL0004: [PID: 7] 2026-11-23 Failed to allocate memory.", "EL0004"),
        ("E40001: [PID: 7] 2026-11-23 Value [/bin] for environment variable [PATH]", None),
        ("EH9999: Inner Error!", "operator-compiler-packages"),
        ("ModuleNotFoundError: No module named 'tbe'", "operator-compiler-packages"),
    ],
)
def test_a_call_that_failed_shows_no_cause_where_cann_says_one_by_a_code(said, id_):
    found = diagnosis_of(failure(*raising(CALL), said))
    assert (found and found.id) == id_
    assert found is None or "train.py" not in found.text


def test_a_full_disk_comes_before_what_cann_could_not_compile():
    raised = raising(CALL)
    full = "OSError: [Errno 28] No space left on device: '/root/atc_data/kernel_cache/te.o'"
    assert told(failure(*raised)).id == "operator-compiler-packages"
    assert told(failure(full, *raised)).id == "disk-full"


def test_without_a_traceback_nobody_knows_whose_error_it_is():
    one = failure("one line", status=3, exception="TypeError: 'NoneType' object is not callable")
    assert (told(one).id, told(one).layer) == ("none-value", "unknown")


@pytest.mark.parametrize("file", ["/code/model.py", "/v/lib/python3.11/site-packages/a/b.py"])
@pytest.mark.parametrize(
    "line",
    ["AssertionError", "AssertionError: tp must divide heads", "KeyError: 'a'", "ValueError: b",
     "IndexError: list index out of range", "AttributeError: 'A' object has no attribute 'b'",
     "NameError: name 'a' is not defined", "NotImplementedError: Operator a.b"],
)  # fmt: skip
def test_the_type_of_an_exception_alone_claims_no_cause_wherever_it_was_raised(line, file):
    begin, script, raised = raising(line)
    found = told(failure(begin, script, f'  File "{file}", line 7, in work', raised))
    assert found.layer == "unknown"


MEANT = "The above exception was the direct cause of the following exception:"
HANDLED = "During handling of the above exception, another exception occurred:"
DAMAGED = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central dir"


def test_of_an_exception_without_a_cause_what_was_raised_from_it_tells_one():
    found = told(failure(*raising("ValueError: bad header"), "", MEANT, "", *raising(DAMAGED)))
    assert found.id == "checkpoint-damaged"
    handled = failure(*raising("ValueError: bad header"), "", HANDLED, "", *raising(DAMAGED))
    assert told(handled).layer == "unknown"


def test_of_two_exceptions_with_a_cause_the_first_tells_it():
    full = raising("OSError: [Errno 28] No space left on device")
    assert told(failure(*full, "", MEANT, "", *raising(DAMAGED))).id == "disk-full"


def test_an_exception_whose_words_tell_its_cause_is_the_same_wherever_it_was_raised():
    place = '  File "/v/lib/python3.11/site-packages/torch/serialization.py", line 7, in save'
    begin, script, raised = raising("OSError: [Errno 28] No space left on device")
    assert told(failure(begin, script, place, raised)).layer == "host"


@pytest.mark.parametrize(
    ("symbol", "id_"),
    [
        (
            "_ZNK3c1010TensorImpl16is_contiguous_customENS_12MemoryFormatE",
            "torch-npu-torch-mismatch",
        ),
        ("_ZN3atb9OperationC2Ev", "nnal-mismatch"),
        ("aclrtGetDeviceUtilizationRate", "torch-npu-cann-mismatch"),
        ("_ZN2ge7Session8RunGraphEj", "symbol-missing"),
    ],
)
def test_a_symbol_that_torch_npu_lacks_is_of_the_library_that_defines_it(symbol, id_):
    library = "/v/lib/python3.10/site-packages/torch_npu/lib/libtorch_npu.so"
    assert told(failure(*raising(f"ImportError: {library}: undefined symbol: {symbol}"))).id == id_


@pytest.mark.parametrize(
    ("module", "id_"),
    [
        ("megatron.core", "namespace-part-missing"),
        ("megatron.core.transformer", "module-missing"),
        ("megatron", "package-missing"),
        ("profile.run'; 'profile' is not a package", "package-hidden"),
        ("acl", "cann-package-missing"),
        ("cann_ops_transformer", "cann-package-missing"),
        ("tbe.dsl", "operator-compiler-packages"),
        ("torch_npu._C", "torch-npu-source-tree"),
    ],
)
def test_a_module_of_an_installed_package_is_not_mended_by_installing_it(module, id_):
    line = f"ModuleNotFoundError: No module named '{module}{chr(39) * (chr(39) not in module)}"
    assert told(failure(*raising(line))).id == id_
    hint = "ImportError: No module named 'apex'. Build it: see 'https://github.com/NVIDIA/apex'"
    assert told(failure(*raising(hint))).id == "package-missing"


@pytest.mark.parametrize(
    "line",
    ["NPU function error: call aclnnAdd failed, error code is 161002",
     "ACL stream synchronize failed, error code:507015", "[vector core exception]"],
)  # fmt: skip
@pytest.mark.parametrize("status", [1, -6])
def test_what_tells_only_where_the_npu_failed_claims_no_cause(line, status):
    """It may be the script, a package, CANN or the device: a restart elsewhere may help."""
    lines = raising(f"RuntimeError: {line}") if status == 1 else (line,)
    assert told(failure(*lines, status=status)).layer == "unknown"


def test_words_that_name_a_cause_come_before_the_step_that_failed():
    raised = raising("RuntimeError: call aclnnAdd failed, error code is 161002")
    assert told(failure(*raised, "HBM MULTI BIT ECC ERROR")).id == "npu-memory-ecc"


def test_a_code_that_was_printed_before_an_exception_yields_to_its_own_words():
    assert told(failure("EJ0001: busy", *raising(DAMAGED))).id == "checkpoint-damaged"
    assert told(failure("EJ0001: busy", *raising("RuntimeError: init failed"))).id == "EJ0001"
    assert told(failure(*raising(DAMAGED), "EJ0001: busy")).id == "EJ0001"


CHILD = (
    "(EngineCore pid=7) Process EngineCore:",
    "(EngineCore pid=7) Traceback (most recent call last):",
    '(EngineCore pid=7)   File "/usr/lib/python3.11/multiprocessing/process.py", line 314',
    "(EngineCore pid=7)     self.run()",
    "(EngineCore pid=7) OSError: [Errno 28] No space left on device",
)
REPORTS = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed: {}",
    "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    "Exception: WorkerProc initialization failed. See stack trace for root cause.",
    "RuntimeError: Worker failed, please check the stack trace above for the root cause",
)


@pytest.mark.parametrize("report", REPORTS)
def test_who_reports_the_failure_of_its_child_leaves_the_cause_to_it(report):
    found = told(failure(*CHILD, *raising(report)))
    assert (found.id, found.layer) == ("disk-full", "host")
    logged = (f"ERROR 08-27 01:44:46 [core.py:842] {line}" for line in raising("KeyError: 'yarn'"))
    assert told(failure(*logged, *raising(report))).id == "key-missing"


@pytest.mark.parametrize("worker", [None, Worker(0, ExitStatus.of(-7))])
def test_a_signal_may_tell_the_cause_without_a_word(worker):
    one = failure("step 7", status=-7 if worker is None else 1, worker=worker)
    assert told(one).id == "bus-error"
    assert told(failure("No space left on device", status=-7)).id == "disk-full"
    assert diagnosis_of(failure("step 7", status=-11)) is None


def test_who_does_not_reach_the_rendezvous_is_told_to_look_at_its_address_too():
    """Rank 0 may be well: only its words tell, and the address may lead elsewhere."""
    line = "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms"
    found = told(failure(*raising(f"{line} while trying to connect to (node-0, 29500).")))
    assert (found.id, found.rank) == ("no-rendezvous", 0)
    assert "MASTER_ADDR" in found.remedy
    assert "MASTER_ADDR" in found.remedy_zh


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("ImportError: cannot import name 'LLM' from 'vllm' (unknown location)", "package-hidden"),
        ("ImportError: cannot import name 'LLM' from 'vllm' (/v/vllm/a.py)", "import-name-missing"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "hub-access-refused"),
        ("huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.",
         "hub-repository-missing"),
        ("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://a.b/c",
         "hub-repository-missing"),
        ("ModuleNotFoundError: No module named 'flash_attn_2_cuda'", "extension-missing"),
        ("RuntimeError: Invalid magic number; corrupt file?", "checkpoint-not-pickle"),
    ],
)  # fmt: skip
def test_words_of_two_kinds_are_told_apart_by_their_particulars(line, id_):
    assert told(failure(*raising(line))).id == id_
