"""What is written into the cluster's files and asks for nothing: the ranks run on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recovery.pods import Pod, Story
from tests.recovery.supervisors import SimulatedCluster, started
from tests.recovery.tables import members, moved, super_pod, template_1, template_2, withdrawn
from tests.recovery.writers import (
    RESET,
    TABLE,
    VERSION,
    ConfigMap,
    make_again,
    reset_file,
    tear,
)

UNTOUCHED = Story(worlds=[2], free=[], triggers=[], exit_code=143)


def ran_on(cluster: SimulatedCluster) -> None:
    """And what is news is still heard."""
    cluster.move(30)
    for pod in cluster.running:
        assert not pod.job.all("generation.ended")
    cluster.write_reset(reset_file(retry_time=1))
    for pod in cluster.running:
        pod.then("cluster.incident", trigger="retry_time")
    assert [story.triggers for story in cluster.stop()] == [["retry_time"]] * 2


def test_a_table_that_is_written_again_with_the_same_bytes(cluster):
    job = members(2)
    started(cluster, job)
    cluster.write_table(job, version=0)
    ran_on(cluster)


def test_a_version_that_falls_back(cluster):
    for pod in started(cluster, members(2)):
        pod.config.write({VERSION: b"0"})
    ran_on(cluster)


def test_a_table_that_is_withdrawn_for_two_seconds_and_then_the_same(cluster):
    job = members(2)
    started(cluster, job)
    with cluster.held():
        cluster.withdraw_table()
        cluster.move(2)
        cluster.write_table(job)
        cluster.move(1)
    ran_on(cluster)


def test_a_table_that_is_withdrawn_again_and_again_for_two_seconds(cluster):
    job = members(2)
    started(cluster, job)
    with cluster.held():
        for _ in range(5):
            cluster.withdraw_table()
            cluster.move(2)
            cluster.write_table(job)
            cluster.move(2)
    ran_on(cluster)


def test_files_that_are_torn_for_a_second(cluster):
    job = members(2)
    pods = started(cluster, job)
    with cluster.held():
        for pod in pods:
            tear(pod.config.path / TABLE, cluster.form(moved(job, 1, host=9)))
            tear(pod.config.path / VERSION, b"22")
            tear(pod.reset.path / RESET, reset_file(retry_time=1))
        cluster.move(1)
        cluster.write_table(job)
        cluster.write_reset(reset_file())
    ran_on(cluster)


def test_files_that_stay_torn_or_empty(cluster):
    job = members(2)
    pods = started(cluster, job)
    tear(pods[0].config.path / TABLE, withdrawn())
    tear(pods[0].reset.path / RESET, reset_file(retry_time=1, graceful_exit=1))
    (pods[1].config.path / TABLE).write_bytes(b"")
    (pods[1].reset.path / RESET).write_bytes(b"")
    cluster.move(100)
    ran_on(cluster)


def test_files_that_are_written_again_and_again(cluster):
    # Each time they are empty, and then torn, for a moment.
    job = members(2)
    started(cluster, job)
    for number in range(60):
        cluster.write_table(job, version=number % 3)
        cluster.write_reset(reset_file(at=number))
        if number % 5 == 0:
            cluster.move(1)
    ran_on(cluster)


def test_a_directory_that_is_unlinked_and_made_again(cluster):
    job = members(2)
    for pod in started(cluster, job):
        make_again(pod.reset.path)
    cluster.move(10)
    cluster.write_reset(reset_file())
    ran_on(cluster)


def test_the_table_is_followed_while_there_is_no_reset_file(cluster):
    job = members(2)
    pods = started(cluster, job)
    for pod in pods:
        make_again(pod.reset.path)
    cluster.move(10)
    cluster.write_table(moved(job, 1, host=9))
    for pod in pods:
        pod.up(1)
    assert cluster.stop() == [Story([2, 2], [True], ["table_changed"], 143)] * 2


def test_a_reset_file_that_never_comes(cluster):
    job = members(2)
    pods = cluster.start(job, reset=b"")
    for pod in pods:
        make_again(pod.reset.path)
        pod.up()
    cluster.move(100)
    assert cluster.stop() == [UNTOUCHED] * 2


def test_a_reset_file_of_a_later_release(cluster):
    started(cluster, members(2))
    cluster.write_reset(b'{"RankList": null, "Added": {"Later": [1]}, "RetryTime": 0}')
    ran_on(cluster)


def test_a_config_map_that_shows_a_withdrawn_table_for_90_seconds(cluster):
    # An operator restarts within 3 s, and kubelet copies what it wrote a minute later.
    job = members(2)
    pods = started(cluster, job, mount=ConfigMap)
    with cluster.held():
        cluster.withdraw_table()
        cluster.move(90)
        for pod in pods:
            assert not pod.job.all("cluster.incident")
        cluster.write_table(job)
        cluster.move(2)
    ran_on(cluster)


@pytest.mark.parametrize("form", [template_2, template_1, super_pod])
def test_a_table_that_is_written_in_another_way(cluster, form):
    cluster.form = form
    job = members(2)
    pods = started(cluster, job)
    copies = [ranks_table(pod) for pod in pods]
    before = [copy.read_bytes() for copy in copies]
    document = json.loads(form(job))
    document = {"timestamp": 1, **dict(reversed(document.items()))}
    for pod in pods:
        pod.config.write({TABLE: json.dumps(document, indent=7).encode()})
    cluster.move(30)
    assert [copy.read_bytes() for copy in copies] == before
    ran_on(cluster)


@pytest.mark.parametrize("form", [template_1, super_pod])
def test_a_table_that_lists_the_same_servers_in_another_order(cluster, form):
    # Rank ids are written in it, and the ranks keep their copy.
    cluster.form = form
    job = members(2)
    pods = started(cluster, job)
    document = json.loads(form(job))
    for listed in (document["server_list"], *document.get("super_pod_list", ())):
        (listed if isinstance(listed, list) else listed["server_list"]).reverse()
    for pod in pods:
        pod.config.write({TABLE: json.dumps(document).encode()})
    ran_on(cluster)


def ranks_table(pod: Pod) -> Path:
    """The file that its ranks were given."""
    pid = pod.job.all("process.started")[0]["child_pid"]
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (named,) = (line for line in environ if line.startswith(b"RANK_TABLE_FILE="))
    return Path(named.partition(b"=")[2].decode())
