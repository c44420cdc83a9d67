"""What warnings and loggers print at the end is not why a process ended."""

from __future__ import annotations

import pytest

from ascend_supervisor.evidence.blame import explained
from tests.evidence.programs import output
from tests.evidence.test_asides import failure

WORDS = "print('no data in /data', flush=True)\n"
WARNED = {
    "a resource tracker": (
        "import os\nfrom multiprocessing import shared_memory\n"
        "shared_memory.SharedMemory(f'test_warned_{os.getpid()}', True, 10)\n"
    ),
    "a user's": "import warnings\nwarnings.warn('old')\n",
    "two lines": "import warnings\nwarnings.warn('old\\nand long')\n",
    "deprecation": "import warnings\nwarnings.warn('old', DeprecationWarning)\n",
    "a category": "import warnings\nclass Odd(Warning): pass\nwarnings.warn('old', Odd)\n",
    "a resource": (
        "import warnings; warnings.simplefilter('always')\ndef leak(): open('/dev/null')\nleak()\n"
    ),
    "a resource, traced": (
        "import tracemalloc, warnings; tracemalloc.start(5); warnings.simplefilter('always')\n"
        "def leak(): open('/dev/null')\nleak()\n"
    ),
    "a resource, at the end": (
        "import sys, warnings; warnings.simplefilter('always')\n"
        "sys.modules['kept'] = open('/dev/null')\n"
    ),
    "captured": (
        "import logging, warnings; logging.basicConfig(); logging.captureWarnings(True)\n"
        "warnings.warn('old')\n"
    ),
    "a logger": "import logging\nlogging.warning('late')\n",
}  # fmt: skip


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_and_its_source_are_not_the_last_line(name):
    lines = output(f"{WORDS}{WARNED[name]}raise SystemExit(1)", 1)
    assert len(lines) > 1
    assert explained(failure(lines)).said == "its last line is: no data in /data"


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_alone_says_nothing(name):
    assert explained(failure(output(f"{WARNED[name]}raise SystemExit(1)", 1))).said is None


LATE = "import atexit, logging, warnings\n@atexit.register\ndef end(): {}\n"


@pytest.mark.parametrize(
    "late",
    [
        "warnings.warn('old')",
        "logging.basicConfig(level=0); logging.info('bye')",
        "logging.basicConfig(level=0, format='%(asctime)s %(message)s'); logging.info('bye')",
        "logging.basicConfig(level=0, format='[%(levelname)s] %(message)s'); logging.info('bye')",
    ],
)
@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("raise ValueError('nan')", "ValueError: nan"),
        ("raise RuntimeError('\\n\\nthe reason is here')", "RuntimeError: the reason is here"),
    ],
)
def test_what_is_printed_after_a_traceback_is_not_its_message(late, end, said):
    assert explained(failure(output(LATE.format(late) + end, 1))).said == said


def test_a_rule_without_a_word_is_not_the_last_line():
    assert explained(failure(["no data in /data", "-----", "", "+==+"])).said == (
        "its last line is: no data in /data"
    )


QUIET = (
    "INFO:root:bye",
    "[INFO] bye",
    "[   INFO] bye",
    "INFO bye",
    "INFO:     Shutting down",
    "DEBUG:root:bye",
    "train - INFO - bye",
    "[train.py:12] INFO: bye",
    "[INFO|trainer.py:123] 2026-01-02 03:04:05,123 >> bye",
    "INFO 01-02 03:04:05 engine.py:12] bye",
    "[INFO] HCCL(1234,python):2026-01-02-03:04:05.123.456 [main.cc:12][5678] bye",
    "[DEBUG] ME(1234:5678,MainProcess):2026-01-02-03:04:05.123.456 [mindspore/a.py:12] bye",
    "2026-01-02 03:04:05,123 INFO bye",
    "2026-01-02T03:04:05.123Z INFO bye",
    "2026-01-02 03:04:05,123 - train - INFO - bye",
    "2026-01-02 03:04:05,123 apscheduler.scheduler INFO bye",
    "2026-01-02 03:04:05,123 - mindformers[trainer.py:12] - INFO - bye",
    "2026/01/02 03:04:05 - mmengine - INFO - bye",
    "2026-01-02 03:04:05,123\tINFO worker.py:1642 -- bye",
    "[2026-01-02 03:04:05,123] [INFO] [engine.py:12:destroy] [Rank 0] bye",
    "[2026-01-02 03:04:05,123] torch.distributed.run: [INFO] bye",
    "2026-01-02 03:04:05.123 | INFO     | __main__:<module>:3 - bye",
    "2026-01-02 03:04:05.123 | SUCCESS  | __main__:<module>:3 - bye",
    "2026-01-02 03:04:05 [info     ] bye                            key=1",
    "03:04:05 [MainThread] INFO  train - bye",
    "[01/02/26 03:04:05] INFO     bye                              train.py:3",
    "                    INFO     bye                              train.py:3",
    "I0102 03:04:05.123456 1234 main.cc:12] bye",
    "I20260102 03:04:05.123456 1234 main.cc:12] bye",
    "[I1127 11:14:03.086 ProcessGroupHCCL.cpp:12] bye",
    "[2026-01-02 03:04:05,123 I 1234 1234] main.cc:12: bye",
    "2026-01-02 03:04:05.123456: I tensorflow/core/platform/cpu.cc:12] bye",
    "w-0:1234:5678 [0] NCCL INFO bye",
    "level=info msg=bye",
    "time=2026-01-02T03:04:05Z level=info msg=bye",
    '{"time": 1, "level": "info", "message": "bye"}',
)


@pytest.mark.parametrize("line", QUIET)
def test_a_record_of_a_logger_without_trouble_is_not_the_last_line(line):
    assert explained(failure(["no data", line, line])).said == "its last line is: no data"


@pytest.mark.parametrize(
    "line",
    [
        "no data in /data",
        "ERROR:root:no data with level INFO",
        "[ERROR] INFO: x",
        "2026-01-02 03:04:05,123 - train - ERROR - no INFO: x",
        "2026-01-02 03:04:05,123 - train - CRITICAL - x",
        "2026-01-02 03:04:05.123 | ERROR    | INFO",
        "E0102 03:04:05.123456 1234 main.cc:12] x",
        "level=error msg=INFO",
        '{"level": "error", "message": "INFO"}',
        "2026-01-02 03:04:05 cannot read the INFO file",
        "no INFO in the header",
        "no INFO: x",
        "info about the job is missing",
        "Information is missing",
        "there is no [debug] in train.toml",
        "cannot set level=info",
        "IDs 12 and 13 are missing",
    ],
)
def test_what_is_no_such_record_is_the_last_line(line):
    bye = "INFO:root:bye"
    assert explained(failure(["step 1", line, bye])).said == f"its last line is: {line}"


def test_where_nothing_else_was_said_near_the_end_it_is_a_record():
    records = [f"INFO:root:step {step}" for step in range(40)]
    for lines in (records, ["begin", *records]):
        assert explained(failure(lines)).said == "its last line is: INFO:root:step 39"


@pytest.mark.parametrize("stream", ["sys.stderr", "sys.stdout"])
@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("sys.exit('no data in /data')", "no data in /data"),
        ("logging.error('no data'); sys.exit(1)", "ERROR:root:no data"),
        ("print('no data'); logging.info('step'); sys.exit(1)", "no data"),
        ("logging.info('step'); sys.exit(1)", "INFO:root:bye"),
    ],
)
def test_a_logger_that_runs_after_the_last_words_does_not_hide_them(stream, end, said):
    logs = f"logging.basicConfig(level=0, stream={stream}); atexit.register(logging.info, 'bye')\n"
    lines = output(f"import atexit, logging, sys\n{logs}{end}", 1)
    assert explained(failure(lines)).said == f"its last line is: {said}"
