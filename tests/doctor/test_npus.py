"""What npu-smi and hccn_tool tell; real small programs stand in for them."""

from __future__ import annotations

import pytest

from ascend_supervisor.doctor.npus import chips_in, ecc, npu_health, npu_links, of_this_job
from tests.doctor.programs import ask, npu_smi, path_with, program, table
from tests.doctor.servers import only, server

ALARM = """
echo "        Health Status                  : Alarm"
echo "        Error Code                     : 80C98001"
echo "        Error Information              : node type=AIC, event state=cannot be fixed"
"""
ECC = """
echo "        NPU ID                                   : $5"
echo "        HBM Single Bit Error Count               : 7"
echo "        HBM Double Bit Error Count               : $(( $5 == 1 ? 3 : 0 ))"
"""


@pytest.fixture
def npus(tmp_path):
    """``npus(**facts)``: a server with two NPUs, and with the programs of the test on its PATH."""

    def made(**more):
        found = server(tmp_path, environ=path_with(tmp_path), **more)
        for number in range(2):
            (found.roots.dev / f"davinci{number}").touch()
        return found

    return made


def test_each_chip_of_the_table_is_read_and_processes_are_not_taken_for_chips():
    chips = chips_in(table("OK", "Warning"))
    assert [(chip.npu, chip.chip, chip.health) for chip in chips] == [
        (0, 0, "OK"),
        (1, 0, "Warning"),
    ]
    chips = chips_in(table("OK", "OK", "OK", "Critical", chips=2))
    assert [(chip.npu, chip.chip) for chip in chips] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("health", "verdict"), [("Alarm", "warning"), ("Critical", "unfit"), ("Warning", "warning")]
)
async def test_an_npu_that_is_not_healthy_is_told_with_its_error(tmp_path, npus, health, verdict):
    npu_smi(tmp_path, "OK", health, more=ALARM)
    row = only(await npu_health(npus(), ask))
    assert row.verdict == verdict
    assert row.found == (
        f"NPU 1, chip 0: {health} (80C98001: node type=AIC, event state=cannot be fixed)"
    )


@pytest.mark.parametrize(
    ("ranks", "verdict"), [(1, "warning"), (2, "unfit"), (3, "unfit"), (None, "unfit")]
)
async def test_an_npu_that_this_job_may_not_use_is_no_reason_to_refuse_it(
    tmp_path, npus, ranks, verdict
):
    npu_smi(tmp_path, "OK", "Critical", more=ALARM)
    early = await npu_health(npus(), ask)
    assert only(of_this_job(early, npus(ranks=ranks))).verdict == verdict


async def test_nor_is_one_that_only_a_privileged_container_sees(tmp_path, npus):
    npu_smi(tmp_path, "OK", "OK", "Critical", more=ALARM)
    assert only(await npu_health(npus(), ask)).verdict == "warning"


async def test_healthy_npus_are_asked_once(tmp_path, npus):
    npu_smi(tmp_path, "OK", "OK", more="echo asked twice; exit 1")
    assert only(await npu_health(npus(), ask)).found == "2 chips, all OK"


async def test_an_npu_smi_that_cannot_answer_stops_nothing(tmp_path, npus):
    program(tmp_path, "npu-smi", "echo dcmi module initialize failed. ret is -8005; exit 1")
    row = only(await npu_health(npus(), ask))
    assert row.verdict == "unknown"
    assert "it exited with status 1: dcmi module initialize failed. ret is -8005" in row.found


async def test_a_word_for_health_that_nobody_knows_stops_nothing(tmp_path, npus):
    npu_smi(tmp_path, "OK", "UNKNOWN", more="")
    assert only(await npu_health(npus(), ask)).verdict == "unknown"


async def test_errors_of_two_bits_are_told(tmp_path, npus):
    npu_smi(tmp_path, "OK", "OK", more=ECC)
    assert only(await ecc(npus(), ask)).found == "3 errors of two bits in NPU 1"


async def test_links_that_are_down_are_told_where_other_servers_take_part(tmp_path, npus):
    up = 'case $2$3 in 1-link) echo "link status: DOWN";; *-link) echo "link status: UP";; esac'
    program(tmp_path, "hccn_tool", f'{up}\n[ $3 = -link ] || echo "net health status: Init"')
    row = only(await npu_links(npus(), ask))
    assert (row.verdict, row.found) == ("warning", "the link of NPU 1 is DOWN")
    assert list(await npu_links(npus(is_alone=True), ask)) == []


@pytest.mark.parametrize(
    ("health", "verdict"), [("Success", "fit"), ("Init", "fit"), ("Fault", "warning")]
)
async def test_the_health_of_the_network_is_told(tmp_path, npus, health, verdict):
    script = f'[ $3 = -link ] && echo "link status: UP" || echo "net health status: {health}"'
    program(tmp_path, "hccn_tool", script)
    assert only(await npu_links(npus(), ask)).verdict == verdict


async def test_without_npus_no_program_is_asked(tmp_path):
    npu_smi(tmp_path, "Critical")
    found = server(tmp_path, environ=path_with(tmp_path))
    assert list(await npu_health(found, ask)) == []
    assert list(await ecc(found, ask)) == []
    assert list(await npu_links(found, ask)) == []
