import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent.tools import session_tools
from treadle.errors import ToolError


async def test_the_whole_list_is_replaced_kept_and_rendered(workspace: Workspace) -> None:
    await workspace.run("todo", todos=[{"content": "old"}])
    result = await workspace.run(
        "todo",
        todos=[
            {"content": "read", "status": "completed"},
            {"content": "write\nit", "status": "in_progress"},
            {"content": "test"},
        ],
    )
    assert result == "[x] read\n[>] write it\n[ ] test\n1 of 3 done"
    kept = workspace.context.state[session_tools.STATE]
    assert [item.content for item in kept] == ["read", "write\nit", "test"] and session_tools.render(kept) == result


async def test_an_empty_list_clears_it(workspace: Workspace) -> None:
    await workspace.run("todo", todos=[{"content": "old"}])
    assert await workspace.run("todo", todos=[]) == "[the list is empty]"
    assert workspace.context.state[session_tools.STATE] == ()


async def test_a_wrong_status_and_an_endless_list_are_refused(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match=r"todos\[0\].status"):
        await workspace.run("todo", todos=[{"content": "x", "status": "done"}])
    with pytest.raises(ToolError, match="the list has 101 items; at most 100 are kept"):
        await workspace.run("todo", todos=[{"content": "x"}] * 101)
    assert session_tools.STATE not in workspace.context.state
    assert (await workspace.run("todo", todos=[{"content": "x"}] * 100)).endswith("\n0 of 100 done")
