"""The images and pods of the pages fit together: what one puts somewhere, the next finds there."""

from __future__ import annotations

import re

import yaml

from tests.readme.commands import MINDSPORE, block, dry_run, instructions, portable_pod, volcano_job
from tests.test_manifests import complaints, container


def test_the_image_has_what_it_starts():
    """Its wheel is the one that make wheel makes, its programs stand on PATH."""
    told = instructions(block(MINDSPORE))
    words = ["FROM", "USER", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"]
    assert [word for word, _ in told] == words
    by_word = dict(told)
    wheel, place = by_word["COPY"].split()
    assert f"pip install {wheel}\n" in block("make wheel\n")
    made, installed, linked = by_word["RUN"].split(" && ")
    assert installed.strip().endswith(f"/pip install {place}{wheel.removeprefix('dist/')}")
    (environment,) = re.findall(r" -m venv (\S+)", made)
    assert linked == f"ln -s {environment}/bin/ascend-supervisor* /usr/local/bin/"
    assert by_word["ENTRYPOINT"].startswith(f'["{environment}/bin/ascend-supervisor", ')


def test_the_image_of_the_portable_directory_has_what_make_makes():
    _, (_, copied) = instructions(block("FROM busybox\n"))
    made, place = copied.split()
    assert f" {made} arm64\n" in dry_run("make portable MACHINE=arm64")
    assert f'["cp", "-a", "{place}/.", ' in block("spec:\n")


def test_a_pod_mounts_the_portable_directory_where_it_is_copied_to():
    pod = portable_pod()
    (first,) = pod["initContainers"]
    both = (first, container(pod))
    (volume,) = pod["volumes"]
    assert [[mount["name"] for mount in one["volumeMounts"]] for one in both] == [
        [volume["name"]]
    ] * 2
    (place,) = {mount["mountPath"] for one in both for mount in one["volumeMounts"]}
    assert first["command"][-1] == f"{place}/"
    assert container(pod)["command"][0] == f"{place}/bin/ascend-supervisor"


def test_the_job_of_volcano_fits_the_image():
    assert complaints(yaml.safe_dump(volcano_job())) == []
