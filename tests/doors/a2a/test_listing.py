"""Pages of tasks."""

from pathlib import Path

import pytest

from tests.doors.a2a.callers import opened
from tests.stand_ins.sessions import ScriptedAgent
from treadle.wire.common.jsonrpc import Fault


async def test_pages_of_tasks_follow_each_other(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        made = [(await client.send(str(number)))["id"] for number in range(5)]
        seen: list[str] = []
        token = ""
        for _ in range(3):
            page = await client.call("ListTasks", pageSize=2, pageToken=token, includeArtifacts=True)
            seen += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
        assert seen == made[::-1] and token == "", "the latest change first"
        assert (page["totalSize"], page["pageSize"]) == (5, 2) and all("artifacts" in task for task in page["tasks"])
        plain = await client.call("ListTasks", pageSize=5)
        assert plain["nextPageToken"] == "" and not [task for task in plain["tasks"] if "artifacts" in task]
        context = plain["tasks"][0]["contextId"]
        assert [task["id"] for task in (await client.call("ListTasks", contextId=context))["tasks"]] == [made[-1]]
        for status, count in (
            ("TASK_STATE_COMPLETED", 5),
            ("TASK_STATE_INPUT_REQUIRED", 0),
            ("TASK_STATE_UNSPECIFIED", 5),
            ("", 5),
        ):
            assert (await client.call("ListTasks", status=status))["totalSize"] == count, status
        latest = plain["tasks"][0]["status"]["timestamp"]
        assert (await client.call("ListTasks", statusTimestampAfter=latest))["totalSize"] >= 1
        assert (await client.call("ListTasks", statusTimestampAfter="2999-01-01T00:00:00"))["totalSize"] == 0
        assert (await client.call("ListTasks", statusTimestampAfter="1999-01-01T00:00:00Z"))["totalSize"] == 5


async def test_a_place_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        await client.send("x")
        with pytest.raises(Fault, match="none of ours"):
            await client.call("ListTasks", pageToken="x")
