"""conf/supervisor.toml shows every setting that can stand in a file, with its default."""

import re
from pathlib import Path

from ascend_supervisor.settings.kinds import Option
from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.precedence import Settings, read_settings

CONF = (Path(__file__).parents[1] / "conf" / "supervisor.toml").read_text(encoding="utf-8")
SETTING = re.compile(r"^#(?=(\w+) = )", re.MULTILINE)
IN_FILES = [option for option in OPTIONS if "file" in option.places]
FIXED = [option for option in IN_FILES if option.default is not None or not option.otherwise]


def settings(text: str) -> Settings:
    read = read_settings(["--config=it", "python"], {}, lambda _: text.encode())
    assert isinstance(read, Settings)
    return read


UNCOMMENTED = settings(SETTING.sub("", CONF))


def explanation(option: Option) -> str:
    """The line above the setting."""
    lines = CONF.splitlines()
    own = next(i for i, line in enumerate(lines) if line.startswith(f"#{option.key} = "))
    return lines[own - 1]


def test_it_says_nothing_until_a_setting_is_uncommented() -> None:
    assert settings(CONF).sources == {"config": "command line"}


def test_it_holds_every_setting_once_and_in_the_order_of_the_table() -> None:
    assert SETTING.findall(CONF) == [option.key for option in IN_FILES]


def test_all_of_it_can_be_uncommented() -> None:
    names = {option.name for option in IN_FILES}
    assert UNCOMMENTED.sources == dict.fromkeys(names, "file") | {"config": "command line"}


def test_a_fixed_default_stands_as_it_is() -> None:
    for option in FIXED:
        value = getattr(UNCOMMENTED, option.key)
        assert value == option.default_value, option.key
        assert type(value) is type(option.default_value), option.key


def test_only_what_has_no_fixed_default_is_called_an_example() -> None:
    for option in IN_FILES:
        assert explanation(option).startswith("# "), option.key
        is_example = explanation(option).lower().endswith("for example:")
        assert is_example == (option not in FIXED), option.key
