"""Messages that quote other exceptions, and lines that only look so."""

from __future__ import annotations

import pytest

from ascend_supervisor.ctl.explained_log import explained_log
from ascend_supervisor.ctl.logs_to_explain import LogEnd
from ascend_supervisor.evidence.diagnosed import diagnosis_of
from ascend_supervisor.evidence.quotations import quotations
from tests.cost import cpu_seconds
from tests.evidence.test_diagnosed import failure, raising, told

FAILED = "RuntimeError: Failed to import transformers.trainer because of the following error (look"
LOADING = (
    "ValueError: cannot open /v/site-packages/p/libp.so with error: {}: cannot open shared object"
)
TBE = (
    "[ERROR] TBE(7,python):2024-12-11-15:58:23.895.658 [utils/multiprocess_util.py:168]"
    "[repository_manager] msg_mgr_dump raise error[{}]"
)
RECORD = (
    "[{}] DEVICE(2,f,python):2023-11-20-15:34:32.886.561 [mindspore/ccsrc/plugin/a.cc:761] Dump] "
)
FAILS = "Task fail infos task_id: 2, retcode: 507011 ( model execute failed)"
SLOW = "GetNext error may be caused by slow data processing (bigger than 20s / batch)"


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (f"{FAILED} up to see its traceback): No module named 'torch._six'", "module-missing"),
        ("RuntimeError: No module named 'flash_attn_2_cuda'", "extension-missing"),
        ("RuntimeError: No module named 'deepspeed'", "package-missing"),
        ("RuntimeError: x: ImportError: cannot import name 'A' from 'b' (/v/site-packages/b.py)",
         "import-name-missing"),
        ("a.b.LoadError: OSError('/opt/a.so: undefined symbol: _ZN2at4_ops5zeros4callE')",
         "symbol-missing"),
        ("RuntimeError: while loading: /opt/a.so: undefined symbol: _ZN1a1bEv", "symbol-missing"),
        (f"{LOADING.format('libatb.so')} file: No such file", "nnal-missing"),
        (f"{LOADING.format('libhccl.so')} file: No such file", "cann-library-missing"),
        (f"{LOADING.format('/v/site-packages/q/a.so')} file", "package-library-missing"),
    ],
)  # fmt: skip
def test_the_exception_that_a_message_quotes_is_the_cause(line, id_):
    assert told(failure(*raising(line))).id == id_
    assert told(failure(line)).id == id_


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: MyError is not among the types",
        "ValueError: see RuntimeError",
        "AssertionError: Error: 3",
        "IndexError: list index out of range",
    ],
)
def test_a_name_alone_is_no_quotation(line):
    assert quotations([line]) == [] or told(failure(*raising(line))).layer == "unknown"


@pytest.mark.parametrize(
    ("words", "id_"),
    [
        ("[Errno 28] No space left on device", "disk-full"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("[Errno 13] Permission denied: '/root/atc_data'", "permission-denied"),
        ("No module named 'decorator'", "package-missing"),
    ],
)
def test_what_python_code_of_cann_raised_stands_in_its_log(words, id_):
    assert told(failure("stopped"), (TBE.format(words),)).id == id_
    assert diagnosis_of(failure("stopped"), (TBE.format(words).replace("ERROR", "INFO"),)) is None


def test_records_of_mindspore_are_what_a_rank_prints():
    """They have the form of CANN's; a warning in them tells what led to the end."""
    lines = f"{RECORD.format('ERROR')}{FAILS}\n{RECORD.format('WARNING')}{SLOW}\n"
    found = explained_log(LogEnd("rank.log", lines.encode())).diagnosis
    assert found is not None
    assert found.id == "dataset-getnext-timeout"


@pytest.mark.parametrize("line", ["Error: " * 150, "A" * 1000, "/a" * 500, "lib" * 330 + ".so: "])
def test_no_line_is_slow_to_search(line):
    assert cpu_seconds(lambda: quotations([line] * 500)) < 1
