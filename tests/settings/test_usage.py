"""The help tells every option."""

from ascend_supervisor.settings.kinds import Option
from ascend_supervisor.settings.options import GROUPS, OPTIONS
from ascend_supervisor.settings.usage import help_text


def test_the_help_fits_a_terminal() -> None:
    assert max(map(len, help_text().splitlines())) < 80
    assert help_text().isascii()


def told_of(option: Option) -> list[str]:
    """What the help tells of an option, each in words of its own."""
    told = [f"{option.flag} {option.kind.metavar}".rstrip(), option.help]
    default = option.otherwise or option.default
    return [*told, f"(default: {default})"] if default and option.kind.takes_value else told


def test_the_help_tells_every_option_with_its_default() -> None:
    text = " ".join(help_text().split())
    told = [words for option in OPTIONS for words in told_of(option)]
    assert [words for words in told if words not in text] == []
    assert len(told) > 2 * len(OPTIONS)


def test_the_help_shows_usage_an_example_groups_and_exit_codes() -> None:
    text = help_text()
    assert "[--] COMMAND [ARG ...]" in text
    assert "-- python /code/train.py" in text
    assert all(f"\n{title}:\n" in text for title, _ in GROUPS)
    assert all(f"  {code} " in text for code in (64, 65, 69, 70, 73, 75, 124, 126, 127))
