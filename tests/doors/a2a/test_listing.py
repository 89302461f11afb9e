"""Pages of tasks."""

from pathlib import Path

from tests.doors.a2a.callers import opened
from treadle.testing.sessions import ScriptedAgent


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
