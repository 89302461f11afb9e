"""Pages of tasks."""

from pathlib import Path

import pytest

from tests.doors.a2a.callers import opened
from treadle.doors.a2a.listing import listed
from treadle.testing.sessions import ScriptedAgent
from treadle.wire.a2a.versions import Malformed


async def test_pages_of_tasks_follow_each_other(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        made = [(await client.send(str(number)))["id"] for number in range(5)]
        seen: list[str] = []
        token = ""
        for _ in range(3):
            page = await client.call("ListTasks", pageSize=2, pageToken=token, includeArtifacts=True)
            seen += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
        assert sorted(seen) == sorted(made) and token == ""


@pytest.mark.parametrize("size", [True, 0, 101, -1, "5", 2.0, None])
def test_a_page_has_a_whole_number_of_tasks_within_bounds(size: object) -> None:
    with pytest.raises(Malformed, match="from 1 to 100"):
        listed([], {"pageSize": size})
    assert listed([], {"pageSize": 100})["tasks"] == []
