"""Each row of the table reads its own examples, and no row reads another's."""

from __future__ import annotations

import pytest

from ascend_supervisor.progress.reader import FORMATS
from ascend_supervisor.progress.step_format import Example, StepFormat

EXAMPLES = [(one, example) for one in FORMATS for example in one.examples]


def test_every_format_has_an_example():
    assert [one.name for one in FORMATS if not one.examples] == []


@pytest.mark.parametrize(("row", "example"), EXAMPLES, ids=lambda one: getattr(one, "name", ""))
def test_a_format_reads_its_examples(row: StepFormat, example: Example):
    assert row.sign in example.text
    assert row.find(example.text) == example.found
