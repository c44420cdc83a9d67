"""The options for an etcd: what they must fulfil together, and that no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.peers_options import OwnEtcd
from tests.job_settings import faults, only_fault, settings

URL = "http://etcd:2379"
PEERS = f"--peers={URL}"
JOB = {"JOB_ID": "j-1"}
ROOT = Path(__file__).parents[2]
TIMES = {"peers-ttl", "peers-fence", "peers-timeout"}
PASSWORD = {"ASCEND_SUPERVISOR_PEERS_PASSWORD": "s3cret"}


def test_the_job_is_named_by_the_platform_or_the_user() -> None:
    assert settings(PEERS, env=JOB).peers_job is None
    assert settings(PEERS, env={"MINDX_TASK_ID": "t"}).peers_job is None
    assert settings(PEERS, "--peers-job=mine").peers_job == "mine"
    assert only_fault(PEERS) == (
        "--peers: neither MINDX_TASK_ID nor JOB_ID names the job, by which its servers find each "
        "other; write --peers-job=NAME, the same on all servers"
    )


@pytest.mark.parametrize("name", ["a/b", "", "a b", "ä", "a" * 201])
def test_the_name_of_a_job_is_one_part_of_a_key(name) -> None:
    assert "expected a name of letters, digits" in only_fault(PEERS, f"--peers-job={name}", env=JOB)


def test_endpoints_are_shown_as_they_are_written() -> None:
    read = settings("--peers=http://a:1,https://[::1]:2", env=JOB)
    assert read.non_defaults == ("peers=http://a:1,https://[::1]:2 (command line)",)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            ["--peers-fence=25"],
            (
                "--peers-fence (25 s) is not more than --peers-ttl (15 s) and 10 s; raise the "
                "first or lower the second"
            ),
        ),
        (
            ["--peers-timeout=75"],
            (
                "--peers-timeout (75 s) is not more than --peers-fence (60 s) and --peers-ttl "
                "(15 s) together; raise it"
            ),
        ),
        (
            ["--peers-timeout=90", "--restart-delay-max=90"],
            (
                "--peers-timeout (90 s) is not more than --restart-delay-max (90 s), for which all "
                "servers wait before a restart; raise the first or lower the second"
            ),
        ),
        (
            ["--peers-timeout=90", "--restart-delay=100"],
            (
                "--peers-timeout (90 s) is not more than --restart-delay (100 s), for which all "
                "servers wait before a restart; raise the first or lower the second"
            ),
        ),
    ],
)
def test_the_times_leave_room_for_each_other(options, fault) -> None:
    assert only_fault(PEERS, *options, env=JOB) == fault


def test_times_that_just_leave_room_are_taken() -> None:
    options = ("--peers-ttl=2", "--peers-fence=12.1", "--peers-timeout=14.2")
    read = settings(PEERS, *options, "--restart-delay-max=14", env=JOB)
    assert (read.peers_ttl, read.peers_fence, read.peers_timeout) == (2, 12.1, 14.2)


@pytest.mark.parametrize("text", ["1", "0", "2.5", "1500ms", "x", "-3"])
def test_the_ttl_is_in_whole_seconds(text) -> None:
    assert "expected whole seconds, at least 2" in only_fault(PEERS, f"--peers-ttl={text}", env=JOB)


def test_the_ttl_may_have_a_unit() -> None:
    assert settings(PEERS, "--peers-ttl=14s", env=JOB).peers_ttl == 14


@pytest.mark.parametrize(
    ("options", "env", "fault"),
    [
        (["--peers-user=bob"], {}, "--peers-user: the password of this user is missing; write"),
        (["--peers-password-file=f"], {}, "--peers-password-file: the user of this password is"),
        ([], PASSWORD, "ASCEND_SUPERVISOR_PEERS_PASSWORD: the user of this password is missing"),
        (
            ["--peers-user=bob", "--peers-password-file=f"],
            PASSWORD,
            "--peers-password-file and ASCEND_SUPERVISOR_PEERS_PASSWORD exclude each other",
        ),
        (["--peers-ca=f"], {}, "--peers-ca: none of the URLs of --peers is https; write https://"),
        (
            ["--follow-cluster", "--cluster-verdict=1800"],
            {},
            "--peers-timeout (1800 s) is not more than --cluster-verdict (1800 s)",
        ),
    ],
)
def test_what_cannot_be_had_together_is_refused(options, env, fault) -> None:
    assert only_fault(PEERS, *options, env={**JOB, **env}).startswith(fault)


def test_the_cluster_may_be_followed_too() -> None:
    read = settings(PEERS, "--follow-cluster", env=JOB)
    assert read.peers
    assert read.follow_cluster


def test_without_peers_the_others_have_no_effect_and_the_variable_is_ignored() -> None:
    assert faults("--peers-ttl=9", "--peers-job=j") == (
        "--peers-ttl has no effect without --peers; add that, or leave this out",
        "--peers-job has no effect without --peers; add that, or leave this out",
    )
    assert settings(env=PASSWORD).peers is None


@pytest.mark.parametrize(
    "option",
    [
        "--peers=http://bob:s3cret@etcd:2379",
        "--peers=bob:s3cret@etcd:2379",
        "--peers-password=s3cret",
    ],
)
def test_a_password_on_the_command_line_is_refused_and_not_repeated(option) -> None:
    told = " ".join(faults(option, env=JOB))
    assert "s3cret" not in told
    assert "without user and password" in told or "did you mean --peers-password-file?" in told


def test_a_password_in_a_file_of_settings_is_refused_and_not_repeated() -> None:
    told = " ".join(faults(toml='peers_password = "s3cret"\npeers = "http://b:s3cret@a:1"'))
    assert "peers_password is not known" in told
    assert "s3cret" not in told


def test_a_password_is_no_setting() -> None:
    read = settings(PEERS, "--peers-user=bob", env={**JOB, **PASSWORD})
    assert "s3cret" not in repr(read)


def test_the_page_tells_the_defaults():
    page = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    defaults = {option.name: option.default for option in OPTIONS if option.name in TIMES}
    assert set(defaults) == TIMES
    for name, default in defaults.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `--{name} S` |"))
        assert f"({default})" in row


def test_first_is_an_etcd_of_the_jobs_own() -> None:
    read = settings("--peers=first", "--peers-port=4000", env=JOB)
    assert (read.peers, read.peers_port) == (OwnEtcd.FIRST, 4000)
    assert read.non_defaults == ("peers=first (command line)", "peers-port=4000 (command line)")
    assert settings("--peers=first", env=JOB).peers_port == 2379
    assert settings(toml='peers = "first"', env=JOB).peers is OwnEtcd.FIRST
    assert "commas between, or first, found" in only_fault("--peers=second", env=JOB)


def test_an_etcd_of_the_jobs_own_has_no_users_and_no_tls() -> None:
    told = faults("--peers=first", "--peers-ca=f", env={**JOB, **PASSWORD})
    rest = (
        "has no effect with --peers first, whose etcd has neither users nor TLS; name an etcd that "
        "has them, or leave this out"
    )
    assert told == (f"--peers-ca {rest}", f"ASCEND_SUPERVISOR_PEERS_PASSWORD {rest}")


def test_an_etcd_of_the_jobs_own_does_not_move_with_the_cluster() -> None:
    assert "exclude each other: a cluster may move the first server" in only_fault(
        "--peers=first", "--follow-cluster", env=JOB
    )


def test_the_port_belongs_to_an_etcd_of_the_jobs_own() -> None:
    told = only_fault(PEERS, "--peers-port=4000", env=JOB)
    assert told.startswith("--peers-port has no effect without --peers first; write the port in")
    assert settings(PEERS, toml="peers_port = 4000", env=JOB).peers_port == 4000


@pytest.mark.parametrize(
    ("options", "toml"), [(["--peers=10.0.0.5:2379"], ""), ([], 'peers = "10.0.0.5:2379"')]
)
def test_urls_that_cannot_be_read_are_not_also_said_to_be_missing(options, toml) -> None:
    told = only_fault(*options, "--servers=2", "--peers-ttl=20", env=JOB, toml=toml)
    assert "expected URLs http://HOST:PORT" in told


def test_servers_that_make_their_table_are_counted() -> None:
    assert settings(PEERS, "--servers=2", env=JOB).servers == 2
    for none in ("false", "False", "no"):
        assert settings(PEERS, env={**JOB, "ASCEND_SUPERVISOR_SERVERS": none}).servers is None
    assert "at least 1, found '0'" in only_fault(PEERS, "--servers=0", env=JOB)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            ["--servers=2"],
            "--servers: the servers find each other in an etcd, and none is named; add --peers=URL",
        ),
        ([PEERS, "--servers=2", "--rank-table=t"], "--servers and --rank-table exclude each other"),
        ([PEERS, "--servers=2", "--pod-name=p"], "--servers and --pod-name exclude each other"),
        (
            ["--peers=first", "--servers=2"],
            "name an etcd that runs already, such as --peers=http://",
        ),
        (
            [PEERS, "--servers=2", "--follow-cluster"],
            "--servers and --follow-cluster exclude each other",
        ),
        ([PEERS, "--servers=2", "--check"], "--servers and --check exclude each other"),
        ([PEERS, "--servers=2", "--method=once"], "--servers: with --method once nobody reads"),
        (
            [PEERS, "--servers=2", "--node-rank=2"],
            "--node-rank: expected a number from 0 to 1, because --servers is 2, found 2",
        ),
    ],
)
def test_what_cannot_be_had_with_servers_is_refused(options, fault) -> None:
    assert fault in only_fault(*options, env=JOB)


@pytest.mark.parametrize(
    ("written", "expected"), [("2/3", (2, 3)), ("1/1", (1, 1)), ("10/10", (10, 10)), ("0", (0, 0))]
)
def test_how_many_failures_are_too_many(written, expected):
    options = (PEERS, "--servers=2", f"--peers-failures={written}")
    assert settings(*options, env=JOB).peers_failures == expected


def test_two_of_three_are_too_many_by_default():
    assert settings(PEERS, "--servers=2", env=JOB).peers_failures == (2, 3)


@pytest.mark.parametrize("written", ["2", "3/2", "0/3", "2/11", "a/b", "-1/3", "2/", ""])
def test_a_limit_of_failures_that_means_nothing_is_refused(written):
    fault = only_fault(PEERS, "--servers=2", f"--peers-failures={written}", env=JOB)
    assert "expected two numbers up to 10, such as 2/3, or 0" in fault


def test_a_limit_of_failures_without_spares_is_refused():
    assert only_fault(PEERS, "--peers-failures=2/3", env=JOB) == (
        "--peers-failures has no effect without --servers, because only a job with that has "
        "spares; add that, or leave this out"
    )
