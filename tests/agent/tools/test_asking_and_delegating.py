"""The tools that use the session itself: questions, tasks, the list of steps, skills."""

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.tools import session_tools
from treadle.agent.tools.session_tools import SKILL
from treadle.errors import ToolError
from treadle.events import ErrorInfo


async def test_a_subagent_that_failed_is_an_error_with_what_it_said(workspace: Workspace) -> None:
    workspace.tasks.agent_status = "failed"
    with pytest.raises(ToolError, match="the subagent failed\ncba"):
        await workspace.run("task", prompt="abc")
    workspace.tasks.agent_error = ErrorInfo(code="x", message="no model")
    with pytest.raises(ToolError, match="^the subagent failed: no model\ncba$"):
        await workspace.run("task", prompt="abc")
    workspace.tasks.agent_output = False
    with pytest.raises(ToolError, match="^the subagent failed: no model$"):
        await workspace.run("task", prompt="abc")
    workspace.tasks.agent_status = "completed"
    assert await workspace.run("task", prompt="abc") == "[the subagent sent no answer]"


async def test_an_empty_prompt_and_work_that_cannot_be_started_are_errors_for_the_model(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="the prompt is empty"):
        await workspace.run("task", prompt=" \n")
    assert not workspace.tasks.agents
    with pytest.raises(ToolError) as caught:
        await workspace.run("task", prompt="abc", agent_type="nobody")
    assert (caught.value.message, caught.value.hint) == ("there is no agent type 'nobody'", "try another")


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


async def test_a_wrong_status_and_an_endless_list_are_refused(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match=r"todos\[0\].status"):
        await workspace.run("todo", todos=[{"content": "x", "status": "done"}])
    with pytest.raises(ToolError, match="the list has 101 items; the limit is 100"):
        await workspace.run("todo", todos=[{"content": "x"}] * 101)
    assert session_tools.STATE not in workspace.context.state
    assert (await workspace.run("todo", todos=[{"content": "x"}] * 100)).endswith("\n0 of 100 done")


async def test_an_unknown_skill_is_an_error_that_names_the_known_ones(workspace: Workspace) -> None:
    workspace.write(".claude/skills/pdf/SKILL.md", "x")
    with pytest.raises(ToolError, match="pdf"):
        await toolbox.run(SKILL, toolbox.decode(SKILL, '{"name": "doc"}'), workspace.context)
