"""Names of members: no name of a file leads out of the archive's directory, or hides another."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given, strategies

from ascend_supervisor.collection.archive import MemberNames, member_name


def test_a_usual_name_stays_as_it_is():
    assert member_name("logs", "job-proc-rank-0-device-0.txt.1") == (
        "logs/job-proc-rank-0-device-0.txt.1"
    )


def test_a_name_that_would_lead_elsewhere_leads_nowhere():
    assert member_name("logs", "..") == "logs/_."
    assert member_name("logs", "../../etc/passwd") == "logs/.._.._etc_passwd"
    assert member_name("/etc", "", "a\nb\x1b[31m") == "_etc/_/a_b__31m"


@given(strategies.lists(strategies.text(max_size=300), min_size=1, max_size=4))
def test_whatever_names_files_have_a_member_is_below_the_directory(parts):
    path = PurePosixPath(member_name(*parts))
    assert not path.is_absolute()
    assert len(path.parts) == len(parts)
    assert not {"..", "."} & set(path.parts)
    assert str(path).isascii()
    assert str(path).isprintable()
    assert all(len(part) < 255 for part in path.parts)


def test_a_name_is_given_once_also_where_case_does_not_count():
    names = MemberNames()
    assert [names.free(one) for one in ("logs/a", "logs/a", "logs/A", "logs/2/a", "a", "a")] == [
        "logs/a",
        "logs/2/a",
        "logs/3/A",
        "logs/2/2/a",
        "a",
        "2/a",
    ]
