"""Whatever the sources hold, the answer is Settings, a question for help, or sentences."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.precedence import Help, Settings, Version, read_settings
from ascend_supervisor.settings.readers import RankSet, read_duration, read_ranks

FLAGS = [option.flag for option in OPTIONS]
VALUES = [
    "",
    "0",
    "1",
    "4",
    "90s",
    "64KiB",
    "all",
    "0,8-15",
    "true",
    "json",
    "ranktable",
    "--",
    "-",
]

values = st.one_of(st.sampled_from(VALUES), st.text(max_size=20))
words = st.one_of(
    st.sampled_from(FLAGS),
    values,
    st.builds("{}={}".format, st.sampled_from(FLAGS), values),
    st.text(alphabet="-=ahst10", max_size=10),
    st.binary(max_size=5).map(lambda raw: raw.decode(errors="surrogateescape")),
)
variables = st.dictionaries(
    st.one_of(
        st.sampled_from([option.variable for option in OPTIONS]),
        st.sampled_from(["MA_RUN_METHOD", "TTP_OT", "HIGH_AVAILABILITY"]),
        st.text(alphabet=string.ascii_uppercase, max_size=9).map("ASCEND_SUPERVISOR_{}".format),
    ),
    values,
    max_size=5,
)
toml_values = st.one_of(
    values.map(repr),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "[[1], 'a']", "{a = 1}", "1979-05-27", "[1, 2]", "0x" + "f" * 9999]),
)
documents = st.one_of(
    st.binary(max_size=60),
    st.text(alphabet="grace=[]{}'\"#.\n 0", max_size=60).map(str.encode),
    st.lists(
        st.builds(
            "{} = {}".format, st.sampled_from([option.key for option in OPTIONS]), toml_values
        ),
        max_size=6,
        unique_by=lambda line: line.split(" ")[0],
    ).map(lambda lines: "\n".join(lines).encode(errors="replace")),
)


def check_answer(argv: list[str], environ: dict[str, str], document: bytes) -> None:
    try:
        answer = read_settings(argv, environ, lambda _: document)
    except SettingsRefused as refused:
        faults = refused.faults
    else:
        assert isinstance(answer, Settings | Help | Version)
        return
    assert faults
    assert all(fault.isprintable() and len(fault) < 400 for fault in faults)


@given(st.lists(words, max_size=8))
def test_any_command_line_has_an_answer(argv: list[str]) -> None:
    check_answer(argv, {}, b"")


@given(variables)
def test_any_environment_has_an_answer(environ: dict[str, str]) -> None:
    check_answer(["python"], environ, b"")


@given(documents)
def test_any_file_has_an_answer(document: bytes) -> None:
    check_answer(["--config", "x.toml", "python"], {}, document)


@given(st.lists(words, max_size=4), variables, documents)
def test_any_three_sources_have_an_answer(
    argv: list[str], environ: dict[str, str], document: bytes
) -> None:
    check_answer(["--config=x.toml", *argv], environ, document)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=5))
def test_a_list_of_ranks_reads_as_what_it_is_written_as(pairs: list[tuple[int, int]]) -> None:
    ranks = RankSet(tuple(range(first, first + more + 1) for first, more in pairs))
    assert read_ranks(str(ranks)) == ranks


@given(st.floats(min_value=0, max_value=1e9))
def test_a_duration_is_the_number_it_was_written_as(seconds: float) -> None:
    assert read_duration(f"{seconds:f}") == pytest.approx(seconds, abs=1e-6)


@given(st.lists(st.text(min_size=1)))
def test_after_two_dashes_every_word_is_the_commands(words: list[str]) -> None:
    command = ("./program", *words)  # not each word can be one
    answer = read_settings(["--check", "--", *command], {}, lambda _: b"")
    assert isinstance(answer, Settings)
    assert answer.command == command
