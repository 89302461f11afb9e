"""Figures in the form that Prometheus reads; those of a live fleet are looked at in test_machines.py."""

from treadle.serve.api import metrics
from treadle.serve.fleet_link import FleetLink
from treadle.wire.fleet.train import QueuedChange, TrainRecord


async def test_without_a_fleet_it_says_that_it_is_down_and_who_watches() -> None:
    lines = (await metrics.text(FleetLink(), 3)).splitlines()
    assert "treadle_up 0" in lines and "treadle_watchers 3" in lines
    assert not [line for line in lines if line.startswith("treadle_orders")]


def test_a_branchs_name_cannot_end_its_label() -> None:
    assert metrics._quoted('a"b\\c\nd') == 'a\\"b\\\\c\\nd'


def test_the_oldest_change_is_the_age_and_an_empty_queue_has_none() -> None:
    empty = TrainRecord(repository="r", branch="main", tip="t")
    assert metrics._oldest(empty) == 0.0
    queue = tuple(QueuedChange(order=name, commit="c", base="b", at=at) for name, at in (("a", 10.0), ("b", 1e9)))
    assert metrics._oldest(TrainRecord(repository="r", branch="main", tip="t", queue=queue)) > 1e9
