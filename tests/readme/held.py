"""Which tests hold each command of README.md and the pages of commands; a new one is added here.

Both languages have the same blocks (tests/test_docs.py::test_both_languages_say_the_same).
"""

from __future__ import annotations

from dataclasses import dataclass

CONTAINERS = "tests/readme/test_containers.py"
DEMO = "tests/jobs/test_demo.py"
DEMO_CLUSTER = "tests/jobs/test_demo_cluster.py"
EVERY = "tests/readme/test_every_command.py"
IMAGES = "tests/readme/test_images.py"
INSTALLING = "tests/e2e/test_installing.py"
JOBS = "tests/readme/test_jobs.py"
MANIFESTS = "tests/test_manifests.py"
PROGRESS = "tests/progress/test_page.py"
START_DIRECTORY = "tests/jobs/test_start_directory.py"


@dataclass(frozen=True, slots=True)
class Held:
    """How a block or a command begins, its tests, and what none of them runs, with the reason."""

    begins: str
    tests: tuple[str, ...]
    not_run: str


def held(begins: str, *tests: str, not_run: str = "") -> Held:
    return Held(begins, tests, not_run)


BLOCKS = (
    held(
        "make wheel\n",
        f"{EVERY}::test_a_target_starts_what_its_test_starts",
        f"{INSTALLING}::test_the_wheel_brings_the_settings_and_the_sources_bring_the_pages",
        f"{INSTALLING}::test_the_wheel_is_installed_as_the_pages_say",
    ),
    held(
        "ascend-supervisor --standalone 2 ",
        f"{JOBS}::test_a_job_without_a_cluster_prints_json_where_there_is_no_terminal",
        f"{JOBS}::test_a_job_without_a_cluster_prints_text_on_a_terminal_or_on_request",
    ),
    held(
        "2026-11-25 16:02:56.485 UTC ascend_supervisor ",
        f"{JOBS}::test_the_first_job_prints_what_is_shown",
    ),
    held(
        "FROM swr.example.com/my-org/mindspore:cann\n",
        f"{IMAGES}::test_the_image_has_what_it_starts",
        f"{INSTALLING}::test_the_wheel_is_installed_as_the_pages_say",
        f"{CONTAINERS}::test_a_container_restarts_its_ranks",
        not_run="FROM, USER: docker build needs docker, and a registry with this image",
    ),
    held(
        "ascend-supervisor --restarts 3 --method once ",
        f"{CONTAINERS}::test_a_script_of_ones_own_is_put_behind_us",
    ),
    held("rank 2 failed first, ", f"{JOBS}::test_a_failure_is_told_as_shown"),
    held("ascend-supervisorctl status --watch ", f"{JOBS}::test_a_job_is_looked_at"),
    held(
        "trained 91.9 % of ",
        f"{PROGRESS}::test_the_sentence_that_is_shown_is_that_of_the_account_of_the_example",
    ),
    held(
        "python -m ascend_supervisor --restarts 3 ",
        f"{CONTAINERS}::test_a_container_restarts_its_ranks",
    ),
    held(
        "FROM busybox\n",
        f"{IMAGES}::test_the_image_of_the_portable_directory_has_what_make_makes",
        f"{INSTALLING}::test_the_portable_directory_runs_from_where_it_is_copied_to",
        f"{INSTALLING}::test_an_image_without_python_is_supervised_by_the_portable_directory",
        not_run="FROM: docker build needs docker, and a registry",
    ),
    held(
        "spec:\n",
        f"{IMAGES}::test_a_pod_mounts_the_portable_directory_where_it_is_copied_to",
        f"{CONTAINERS}::test_the_init_container_copies_the_portable_directory",
        f"{CONTAINERS}::test_a_container_restarts_its_ranks",
        not_run="kubectl apply needs a cluster",
    ),
    held(
        "# Without the labels and node selectors ",
        f"{IMAGES}::test_the_job_of_volcano_fits_the_image",
        f"{CONTAINERS}::test_a_container_restarts_its_ranks",
        f"{CONTAINERS}::test_the_probe_reports_a_pod_of_volcano",
        not_run="kubectl apply needs a cluster",
    ),
    held(
        "python -m ascend_supervisor -- ",
        f"{CONTAINERS}::test_variables_take_the_place_of_a_rank_table",
    ),
    held("etcd > etcd.log", f"{JOBS}::test_two_servers_agree_through_an_etcd"),
    held(
        "make demo\n",
        f"{EVERY}::test_a_target_starts_what_its_test_starts",
        f"{DEMO}::test_the_demo_loses_a_rank_twice_resumes_warm_and_ends_like_an_undisturbed_run",
        f"{DEMO_CLUSTER}::test_a_rank_and_a_supervisor_are_killed_and_the_result_is_that"
        "_of_an_undisturbed_run",
        not_run="make test would run this test, too",
    ),
    held(
        "ascend-supervisor \\\n",
        f"{JOBS}::test_ranks_get_variables_and_arguments_of_ones_own",
    ),
)
"""The fenced blocks, in the order of the pages."""

SENTENCES = (
    held("apt-get ", not_run="needs root and Debian's packages; scripts/debian-packages runs it"),
    held(
        "ascend-supervisor --check ... -- COMMAND",
        f"{MANIFESTS}::test_the_program_plans_the_ranks_of_a_pod",
    ),
    held("ascend-supervisorctl ", f"{JOBS}::test_a_job_is_looked_at"),
    held("docker ", not_run="needs Docker's daemon; explain reads what it prints"),
    held("kill %1", f"{JOBS}::test_two_servers_agree_through_an_etcd"),
    held("kubectl ", not_run="needs a cluster"),
    held("make ", f"{EVERY}::test_every_target_exists"),
    held("man ", f"{INSTALLING}::test_the_wheel_is_installed_as_the_pages_say"),
    held(
        "pip install '",
        f"{EVERY}::test_what_is_needed_besides_is_what_the_package_asks_for",
        not_run="needs a package index",
    ),
    held(
        "pip install --",
        f"{INSTALLING}::test_every_python_and_machine_has_wheels_of_what_is_needed",
    ),
    held(
        "python train.py",
        f"{START_DIRECTORY}::test_a_script_that_ranks_would_not_find_is_refused",
    ),
)
"""Commands between backticks, in alphabetical order."""
