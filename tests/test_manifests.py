"""conf/*.yaml are jobs that run: their arguments are options, their numbers fit together.

Every checker gives a list of complaints, and is shown to complain about a broken manifest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_supervisor import errors
from ascend_supervisor.cluster.table_file import USUAL_PLACES
from ascend_supervisor.outcome import Patience
from ascend_supervisor.program.run import LAST_WORDS_SECONDS
from ascend_supervisor.settings.precedence import Settings, read_settings
from tests.rank_tables import TEMPLATE_1, data
from tests.test_docs import INSTALL_PAGES, PROBE_SECONDS, page

pytestmark = pytest.mark.one_python

CONF = Path(__file__).parents[1] / "conf"
NAMES = sorted(path.name for path in CONF.glob("*.yaml"))
PROGRAMS = "/opt/ascend-supervisor/bin/"
"""Where the Dockerfile of the README installs them."""
GRACE_OVER_TIME = 900
"""Volcano deletes a pod by force after so many seconds (its grace-over-time)."""
FAREWELL_SECONDS = 5
"""What a server may need beyond a TTL to take leave of its peers while etcd does not answer."""
DYING_GASP = {"HIGH_AVAILABILITY": "dump"}

Document = Mapping[str, Any]


def text(name: str) -> str:
    return (CONF / name).read_text(encoding="utf-8")


def documents(manifest: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(manifest) if document]


def the_job(manifest: str) -> Document:
    (job,) = (one for one in documents(manifest) if one["kind"] in {"Job", "AscendJob"})
    return job


def groups(job: Document) -> list[Document]:
    """Groups of like pods; each has a template, and may have replicas."""
    spec = job["spec"]
    return [*spec.get("tasks", ()), *spec.get("replicaSpecs", {}).values()] or [spec]


def number_of_pods(job: Document) -> int:
    """How many run at the same time."""
    return sum(group.get("replicas", group.get("parallelism", 1)) for group in groups(job))


def pods(job: Document) -> list[Document]:
    return [group["template"]["spec"] for group in groups(job)]


def container(pod: Document) -> Document:
    (only,) = pod["containers"]
    found: Document = only
    return found


def environ(pod: Document) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container(pod)["env"] if "value" in one}


def settings(pod: Document, **variables: str) -> Settings:
    read = read_settings(container(pod)["args"], environ(pod) | variables, lambda _: b"")
    assert isinstance(read, Settings)
    return read


def labels(job: Document) -> Mapping[str, str]:
    found: Mapping[str, str] = job["metadata"].get("labels", {})
    return found


# What the program makes of a job ----------------------------------------------------------------

FIELDS = {
    "metadata.name": "trainjob-worker-0",
    "metadata.uid": "0b4f",
    "metadata.annotations['huawei.com/Ascend910']": "Ascend910-0",
    "status.podIP": "10.1.0.2",
    "status.hostIP": "10.0.5.2",
}
"""What Kubernetes knows of a pod on the second server of the table."""
OPERATOR = {
    "MASTER_ADDR": "10.96.0.7",
    "MASTER_PORT": "2222",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "RANK": "1",
}


def in_its_pod(job: Document, tables: Path) -> dict[str, str]:
    """The variables of a pod; a mounted rank table is the one in ``tables``."""
    (pod, *_) = pods(job)
    fields = {
        one["name"]: FIELDS[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container(pod)["env"]
        if "valueFrom" in one
    }
    mounts = {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
    has_table = mounts & {str(Path(place).parent) for place in USUAL_PLACES}
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **(OPERATOR if job["kind"] == "AscendJob" else {}),
        **({"RANK_TABLE_FILE": str(tables)} if has_table else {}),
        **environ(pod),
        **fields,
    }


@pytest.mark.parametrize(
    ("name", "cluster", "ranks"),
    [
        ("kubernetes-job.yaml", "standalone", list(range(8))),
        ("volcano-job.yaml", "rank_table", [4, 5, 6, 7]),
        ("ascendjob-job-level.yaml", "operator", [4, 5, 6, 7]),
        ("ascendjob-pod-level.yaml", "rank_table", [4, 5, 6, 7]),
    ],
)
def test_the_program_plans_the_ranks_of_a_pod(name, cluster, ranks, tmp_path):
    (tmp_path / "hccl.json").write_bytes(data(TEMPLATE_1))
    job = the_job(text(name))
    (tmp_path / "train.py").touch()
    *words, _ = container(pods(job)[0])["args"]  # the script is on a volume of the pod
    words.append(str(tmp_path / "train.py"))
    done = subprocess.run(
        (sys.executable, "-m", "ascend_supervisor", "--check", *words),
        env=in_its_pod(job, tmp_path),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["cluster"] == cluster
    assert [process["rank"] for process in plan["processes"]] == ranks


# What is wrong with a job -----------------------------------------------------------------------


def argument_complaints(job: Document) -> Iterator[str]:
    """Whether the supervisor understands its arguments and variables."""
    for pod in pods(job):
        try:
            settings(pod)
        except errors.SettingsRefused as refused:
            yield str(refused)
        for words in (
            container(pod)["command"],
            container(pod)["readinessProbe"]["exec"]["command"],
        ):
            if words[0].removeprefix(PROGRAMS) not in page("pyproject.toml"):
                yield f"{words[0]} is not installed"


def time_complaints(job: Document) -> Iterator[str]:
    """Whether the ranks have their grace, and the supervisor its last words, before SIGKILL."""
    drains = [{}, DYING_GASP] if "fault-scheduling" in labels(job) else [{}]
    for pod in pods(job):
        seconds = pod.get("terminationGracePeriodSeconds", 30)
        for variables in drains:
            chosen = settings(pod, **variables)
            patience = Patience(drain=chosen.drain, grace=chosen.grace)
            needed = patience.drain + patience.grace + patience.kill + LAST_WORDS_SECONDS
            needed += chosen.peers_ttl + FAREWELL_SECONDS if chosen.peers else 0
            if seconds < needed:
                yield f"terminationGracePeriodSeconds: {seconds} is less than {needed:.0f}"
        if seconds >= GRACE_OVER_TIME:
            yield f"terminationGracePeriodSeconds: Volcano waits for {GRACE_OVER_TIME} s only"


def termination_complaints(job: Document) -> Iterator[str]:
    """Whether kubelet shows a cause also of what could write none, such as a missing program."""
    for pod in pods(job):
        if container(pod).get("terminationMessagePolicy") != "FallbackToLogsOnError":
            yield "terminationMessagePolicy: expected FallbackToLogsOnError"


def probe_complaints(job: Document) -> Iterator[str]:
    """Whether a probe could end a healthy job, or be late on a busy server."""
    for pod in pods(job):
        for name in ("livenessProbe", "startupProbe"):
            if name in container(pod):
                yield f"{name} restarts a healthy job when it is late"
        if container(pod)["readinessProbe"].get("timeoutSeconds", 1) < PROBE_SECONDS:
            yield "readinessProbe: kubelet waits for 1 s unless timeoutSeconds says otherwise"


def mount_complaints(job: Document) -> Iterator[str]:
    """Whether what the supervisor reads is there, and changes where it lies."""
    for pod in pods(job):
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        mounts = {mount["mountPath"]: mount for mount in container(pod)["volumeMounts"]}
        for path, mount in mounts.items():
            if mount["name"] not in volumes:
                yield f"{path}: there is no volume {mount['name']}"
            if "subPath" in mount:
                yield f"{path}: what is mounted by subPath never changes"
        chosen = settings(pod)
        if chosen.follow_cluster:
            if str(chosen.reset_file.parent) not in mounts:
                yield f"{chosen.reset_file.parent} is not mounted"
            if not {str(Path(place).parent) for place in USUAL_PLACES} & mounts.keys():
                yield "no directory of a rank table is mounted"


def name_complaints(manifest: str) -> Iterator[str]:
    """Whether what belongs to the job has its name, as the cluster expects it."""
    job = the_job(manifest)
    name, namespace = job["metadata"]["name"], job["metadata"].get("namespace", "default")
    maps = {one["metadata"]["name"] for one in documents(manifest) if one["kind"] == "ConfigMap"}
    if maps - {f"rings-config-{name}", f"reset-config-{name}"}:
        yield f"{maps} do not belong to {name}"
    expected = {
        "rank-table": {"name": "rank-table", "configMap": {"name": f"rings-config-{name}"}},
        "ranktable": {
            "name": "ranktable",
            "hostPath": {"path": f"/user/mindx-dl/ranktable/{namespace}.{name}"},
        },
        "reset-config": {
            "name": "reset-config",
            "hostPath": {"path": f"/user/restore/reset/{namespace}.reset-config-{name}"},
        },
    }
    for volume in (volume for pod in pods(job) for volume in pod.get("volumes", ())):
        if volume != expected.get(volume["name"], volume):
            yield f"volume {volume['name']}: expected {expected[volume['name']]}"


def scheduling_complaints(job: Document) -> Iterator[str]:
    """Whether one layer restarts, and the supervisor does its part of the way that is on."""
    spec, is_single = job["spec"], number_of_pods(job) == 1
    least = spec.get("minAvailable")
    if "runPolicy" in spec:
        least = spec["runPolicy"]["schedulingPolicy"]["minAvailable"]
    is_scheduled_together = job["apiVersion"] != "batch/v1"
    if is_scheduled_together and not is_single and least != number_of_pods(job):
        yield f"minAvailable: {least} pods are not all of them"
    policies = [one.get("restartPolicy") for one in (*pods(job), *groups(job))]
    if {*policies} != {None, "Never"}:
        yield f"restartPolicy: kubelet or the Operator restarts a pod in its place: {policies}"
    if labels(job).get("fault-scheduling", "grace") != "grace":
        yield "fault-scheduling: only grace sends SIGTERM"
    for chosen in map(settings, pods(job)):
        if chosen.follow_cluster != (labels(job).get("pod-rescheduling") == "on"):
            yield "--follow-cluster belongs to pod-rescheduling"
        restarts_here = is_single or chosen.peers is not None
        if bool(chosen.exit_linger) == restarts_here:
            yield "--exit-linger is for several servers that a scheduler restarts"
        if bool(chosen.restarts) != restarts_here:
            yield "--restarts acts where one server is the whole job, or with --peers"


def peers_complaints(job: Document) -> Iterator[str]:
    """Whether servers that make their rank table are enough, with a number and an address each."""
    spec = job["spec"]
    for pod in pods(job):
        servers = settings(pod).servers
        if servers is None:
            continue
        if spec.get("completionMode") != "Indexed":
            yield "completionMode: only the pods of an Indexed Job have numbers"
        if spec["completions"] != spec["parallelism"]:
            yield "parallelism: servers that restart together run at the same time"
        if spec["parallelism"] < servers:
            yield f"parallelism: {spec['parallelism']} pods are less than --servers={servers}"
        names = {one["name"] for one in container(pod)["env"]}
        for name in {"POD_IP", "ASCEND_SUPERVISOR_PEERS_JOB"} - names:
            yield f"{name} is not set"
        if not {"/etc/hccn.conf"} & {one["mountPath"] for one in container(pod)["volumeMounts"]}:
            yield "/etc/hccn.conf is not mounted"


def code_complaints(job: Document) -> Iterator[str]:
    """Whether Kubernetes gives up where trying again cannot help, and only there."""
    rules = job["spec"].get("podFailurePolicy", {}).get("rules", ())
    given_up = {code for rule in rules for code in rule.get("onExitCodes", {}).get("values", ())}
    known = {
        errors.SettingsRefused.exit_code,
        errors.TableRefused.exit_code,
        *settings(pods(job)[0]).no_restart_on,
    }
    if given_up - known:
        yield f"podFailurePolicy: {given_up - known} may pass"


def complaints(manifest: str) -> list[str]:
    job = the_job(manifest)
    checks = (
        *(argument_complaints, time_complaints, probe_complaints, mount_complaints),
        *(scheduling_complaints, peers_complaints, code_complaints, termination_complaints),
    )
    if refused := list(argument_complaints(job)):
        return refused
    return [*(one for check in checks for one in check(job)), *name_complaints(manifest)]


@pytest.mark.parametrize("name", NAMES)
def test_a_job_can_be_run_as_it_stands(name):
    assert complaints(text(name)) == []


def test_there_is_a_job_for_each_way():
    assert NAMES == [
        "ascendjob-job-level.yaml",
        "ascendjob-pod-level.yaml",
        "kubernetes-job.yaml",
        "kubernetes-peers-job.yaml",
        "volcano-job.yaml",
    ]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("volcano-job.yaml", "--exit-linger", "--exit-lingers"),
        ("volcano-job.yaml", "--grace=60", "--grace=soon"),
        ("volcano-job.yaml", "bin/ascend-supervisorctl", "bin/ascend-supervise"),
        ("volcano-job.yaml", "--grace=60", "--grace=100"),
        ("volcano-job.yaml", "terminationGracePeriodSeconds: 120", "hostNetwork: true"),
        ("ascendjob-job-level.yaml", "PeriodSeconds: 360", "PeriodSeconds: 900"),
        ("ascendjob-job-level.yaml", "PeriodSeconds: 360", "PeriodSeconds: 280"),
        ("volcano-job.yaml", "readinessProbe:", "livenessProbe: {}\n              readinessProbe:"),
        ("volcano-job.yaml", "timeoutSeconds: 10", "timeoutSeconds: 1"),
        ("volcano-job.yaml", "{name: rank-table, configMap", "{name: rank-tables, configMap"),
        ("volcano-job.yaml", "{name: rank-table, mount", "{name: rank-table, subPath: h, mount"),
        ("ascendjob-pod-level.yaml", "/user/restore/reset/config", "/user/restore/config"),
        ("ascendjob-pod-level.yaml", "/user/serverid/devindex/config", "/user/config/devindex"),
        ("ascendjob-pod-level.yaml", "ranktable/default.trainjob", "ranktable/trainjob"),
        ("ascendjob-pod-level.yaml", "name: reset-config-trainjob  ", "name: reset-config-train"),
        ("volcano-job.yaml", "minAvailable: 2", "minAvailable: 1"),
        ("ascendjob-job-level.yaml", "minAvailable: 2", "minAvailable: 1"),
        ("volcano-job.yaml", "restartPolicy: Never", "restartPolicy: OnFailure"),
        ("ascendjob-pod-level.yaml", "fault-scheduling: grace", "fault-scheduling: force"),
        ("ascendjob-pod-level.yaml", 'pod-rescheduling: "on"', 'pod-rescheduling: "off"'),
        ("ascendjob-job-level.yaml", "--exit-linger=60", "--follow-cluster"),
        ("kubernetes-job.yaml", "--restarts=3", "--exit-linger=60"),
        ("kubernetes-job.yaml", "FallbackToLogsOnError", "File"),
        ("kubernetes-job.yaml", "[64, 65,", "[64, 69,"),
        ("kubernetes-peers-job.yaml", "--servers=2 ", "--servers=two "),
        ("kubernetes-peers-job.yaml", "--servers=2 ", "--servers=4 "),
        ("kubernetes-peers-job.yaml", "PeriodSeconds: 120", "PeriodSeconds: 119"),
        ("kubernetes-peers-job.yaml", "--peers=http:", "--peers-job=http:"),
        ("kubernetes-peers-job.yaml", "--restarts=3", "--exit-linger=60"),
        ("kubernetes-peers-job.yaml", "completionMode: Indexed", "completionMode: NonIndexed"),
        ("kubernetes-peers-job.yaml", "parallelism: 3", "parallelism: 2"),
        ("kubernetes-peers-job.yaml", "name: POD_IP", "name: POD_ADDRESS"),
        ("kubernetes-peers-job.yaml", "name: ASCEND_SUPERVISOR_PEERS_JOB", "name: PEERS_JOB"),
        ("kubernetes-peers-job.yaml", "mountPath: /etc/hccn.conf", "mountPath: /hccn.conf"),
    ],
)
def test_what_is_wrong_with_a_job_is_found(name, right, wrong):
    broken = text(name).replace(right, wrong, 1)
    assert broken != text(name)
    assert complaints(broken)


@pytest.mark.parametrize("name", [*INSTALL_PAGES, "docs/recovery.md", "docs/recovery.zh.md"])
def test_the_pages_on_setting_up_lead_to_every_job(name):
    assert [job for job in NAMES if f"(../conf/{job})" not in page(name)] == []
