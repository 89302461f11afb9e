"""Facts that all agents of a repository can read, and remove."""

import pytest

from tests.coordination.conftest import trail
from treadle.coordination.blackboard import Blackboard
from treadle.coordination.planning import Planning
from treadle.errors import NotFound


def test_a_removed_fact_is_gone_and_the_others_stay(planning: Planning) -> None:
    board = Blackboard(planning)
    board.set("port", "5173")
    board.set("url", "http://localhost")
    board.delete("port")
    board.delete("never there")
    assert board.all() == {"url": "http://localhost"}
    assert [row for row in trail(planning) if row[1] == "del"] == [
        ["blackboard", "del", "port"],
        ["blackboard", "del", "never there"],
    ]
    with pytest.raises(NotFound, match="heimdall-blackboard list"):
        board.get("port")
