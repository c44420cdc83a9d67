"""The help tells every option."""

import pytest

from ascend_supervisor.settings.option import Option
from ascend_supervisor.settings.options import GROUPS, OPTIONS
from ascend_supervisor.settings.usage import help_text


def test_the_help_fits_a_terminal() -> None:
    assert max(map(len, help_text().splitlines())) < 80
    assert help_text().isascii()


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_help_tells_every_option_with_its_default(option: Option) -> None:
    text = " ".join(help_text().split())
    assert f"{option.flag} {option.kind.metavar}".rstrip() in text
    assert option.help in text
    default = option.otherwise or option.default
    assert not default or not option.kind.takes_value or f"(default: {default})" in text


def test_the_help_shows_usage_an_example_groups_and_exit_codes() -> None:
    text = help_text()
    assert "[--] COMMAND [ARG ...]" in text
    assert "-- python /code/train.py" in text
    assert all(f"\n{title}:\n" in text for title, _ in GROUPS)
    assert all(f"  {code} " in text for code in (64, 65, 69, 70, 73, 75, 124, 126, 127))
