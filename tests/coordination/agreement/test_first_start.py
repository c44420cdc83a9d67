"""When a job begins: soon if all its servers have come, else when nobody else can know one."""

from __future__ import annotations

import pytest

from tests.coordination.agreement.process import SOON, TTL
from tests.coordination.agreement.search import explore
from tests.coordination.agreement.stage import Stage
from tests.coordination.agreement.world import Model

pytestmark = pytest.mark.thorough


def test_a_job_whose_servers_have_all_come_begins_soon():
    stage = Stage("cold")
    stage.settle()
    assert (stage.epoch, stage.view.newcomers) == ("none", 2)
    stage.ticks(SOON)
    assert stage.epoch == "run 0"
    assert stage.view.newcomers == 0


def test_a_job_of_which_one_server_has_not_come_begins_after_a_ttl():
    stage = Stage("cold")
    stage.play("kill B")
    stage.ticks(TTL - 1)
    assert (stage.epoch, stage.view.newcomers) == ("none", 1)
    stage.ticks(1)
    assert stage.epoch == "gather 0"


def test_newcomers_begin_no_job_where_a_server_knows_one():
    stage = Stage("running")
    stage.play("wipe", "come other place 2", "look X", "do X", "come other place 3")
    stage.play("look Y", "do Y")
    assert (stage.epoch, stage.view.newcomers) == ("none", 2)
    stage.ticks(SOON)
    assert stage.epoch == "run 0"
    assert {one.incarnation for one in stage.about.roster} == {"A", "B"}


def test_as_many_newcomers_as_servers_do_no_harm_after_a_loss_of_data():
    """300,000 worlds were searched, 16 events deep."""
    found = explore(Model(2), Model(2).running(("wipe",), ("other", "other")), 20_000)
    assert found.violation is None, str(found)
