"""Who acts on faults in place of the scheduler, and that --follow-cluster leaves it to them."""

from __future__ import annotations

import pytest

from ascend_supervisor.settings.process_recovery import other_actors
from tests.job_settings import faults, only_fault, settings

ALL = "ClusterD, TaskD and MindIO"


@pytest.mark.parametrize(
    ("variable", "value", "who"),
    [
        ("PROCESS_RECOVER", "on", ALL),
        ("PROCESS_RECOVER", " ON ", ALL),
        ("PROCESS_RECOVER", "1", ALL),
        ("ELASTIC_PROCESS_RECOVER_ENABLE", "1", ALL),
        ("ENABLE_RESTART_FAULT_PROCESS", "on", "ClusterD and TaskD"),
        ("HIGH_AVAILABILITY", "recover", "MindIO"),
        ("HIGH_AVAILABILITY", "dump,recover,retry", "MindIO"),
        ("HIGH_AVAILABILITY", "dump, Retry", "MindIO"),
        ("HIGH_AVAILABILITY", "elastic-training", "MindIO"),
        ("HIGH_AVAILABILITY", "1", "MindIO"),
        ("MS_ENABLE_TFT", "{TTP:1,UCE:1}", "MindIO"),
        ("MS_ENABLE_TFT", "TTP:1,ARF:1", "MindIO"),
        ("MS_ENABLE_TFT", "{ttp : 0, hcce : 1}", "MindIO"),
        ("MS_ENABLE_TFT", '\'{ "TTP": 1, "UCE": 1 }\'', "MindIO"),
        ("MS_ENABLE_TFT", "{TRE:2}", "MindIO"),
        ("MS_ENABLE_TFT", "{UCE}", "MindIO"),
    ],
)
def test_it_is_on(variable, value, who):
    (actor,) = other_actors({variable: value})
    assert (actor.variable, actor.value, actor.who) == (variable, value, who)


@pytest.mark.parametrize(
    "variable",
    [
        "PROCESS_RECOVER",
        "ELASTIC_PROCESS_RECOVER_ENABLE",
        "ENABLE_RESTART_FAULT_PROCESS",
        "HIGH_AVAILABILITY",
        "MS_ENABLE_TFT",
    ],
)
def test_what_is_off_is_nobodys(variable):
    for value in ("", " ", "0", "off", "OFF", "False", "no", "none"):
        assert other_actors({variable: value}) == (), value


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"HIGH_AVAILABILITY": "dump"},
        {"HIGH_AVAILABILITY": " Dump , exit "},
        {"MS_ENABLE_TFT": "{TTP:1}"},
        {"MS_ENABLE_TFT": "{ ttp : 1 , uce : 0 }"},
        {"MS_ENABLE_TFT": "TTP:1,UCE:0,ARF:0"},
        {"MS_ENABLE_TFT": '{"TTP":"1","UCE":"0"}'},
        {"MS_ENABLE_TFT": "{TTP:1,RSC:1}"},
        {"MS_ENABLE_TFT": "{}"},
        {"MS_ENABLE_TFT": "{UCE:}"},
        {"MINDIO_FOR_MINDSPORE": "1", "TTP_OT": "360", "TTP_NORMAL_ACTION_TIME_LIMIT": "180"},
        {"MINDX_TASK_ID": "7", "MINDX_SERVER_IP": "10.0.0.1"},
    ],
)
def test_a_last_checkpoint_and_the_replacing_of_pods_are_left_to_us(environ):
    assert other_actors(environ) == ()


def test_each_variable_is_named_once_in_a_fixed_order():
    environ = {
        "MS_ENABLE_TFT": "{UCE:1,ARF:1}",
        "HIGH_AVAILABILITY": "retry",
        "PROCESS_RECOVER": "on",
    }
    named = [actor.variable for actor in other_actors(environ)]
    assert named == ["PROCESS_RECOVER", "HIGH_AVAILABILITY", "MS_ENABLE_TFT"]


def test_to_follow_the_cluster_is_refused_with_the_variable_its_value_and_who_acts():
    assert only_fault("--follow-cluster", env={"PROCESS_RECOVER": "on"}) == (
        "--follow-cluster: process-level recovery is on (PROCESS_RECOVER='on', by ClusterD, TaskD "
        "and MindIO): it keeps the ranks that are left, which this option would end; leave the "
        "option out, or turn the recovery off in all pods of the job"
    )


def test_the_source_of_the_option_is_named():
    environ = {"ASCEND_SUPERVISOR_FOLLOW_CLUSTER": "true", "HIGH_AVAILABILITY": "recover"}
    assert only_fault(env=environ).startswith("ASCEND_SUPERVISOR_FOLLOW_CLUSTER: ")
    file = only_fault(toml="follow_cluster = true", env={"MS_ENABLE_TFT": "{UCE:1}"})
    assert file.startswith("job.toml: follow_cluster: ")


def test_it_is_told_together_with_all_other_faults():
    told = faults("--follow-cluster", "--grace=x", env={"PROCESS_RECOVER": "on"})
    assert [fault.partition(":")[0] for fault in told] == ["--grace", "--follow-cluster"]


def test_without_the_option_nothing_is_refused():
    read = settings(env={"PROCESS_RECOVER": "on", "ASCEND_SUPERVISOR_FOLLOW_CLUSTER": "no"})
    assert not read.follow_cluster


def test_a_last_checkpoint_goes_with_the_option():
    read = settings("--follow-cluster", env={"MS_ENABLE_TFT": "{TTP:1,RSC:1}"})
    assert (read.follow_cluster, read.drain) == (True, 190)


@pytest.mark.parametrize("variable", ["PROCESS_RECOVER", "ENABLE_RESTART_FAULT_PROCESS"])
def test_ranks_that_others_repair_are_left_alone_as_long_as_a_last_checkpoint_takes(variable):
    assert settings(env={variable: "on"}).drain == 190


@pytest.mark.parametrize("alone", ["--standalone", "--standalone=2"])
def test_a_machine_without_a_cluster_follows_none(alone):
    assert only_fault("--follow-cluster", alone) == (
        "--follow-cluster and --standalone exclude each other: one follows the schedulers of a "
        "cluster, the other has none; leave one out"
    )
    environ = {"ASCEND_SUPERVISOR_STANDALONE": "false"}
    assert settings("--follow-cluster", env=environ).follow_cluster
