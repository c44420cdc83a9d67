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
