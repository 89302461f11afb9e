import pytest

from tests.agent.tools.workspace import Workspace
from treadle.errors import ToolError


async def test_the_subagents_answer_is_the_result(workspace: Workspace) -> None:
    assert await workspace.run("task", prompt="abc", description="Say it backwards") == "cba"
    assert workspace.tasks.agents == [
        {"prompt": "abc", "label": "Say it backwards", "agent_type": None, "background": False}
    ]


async def test_without_a_name_the_prompt_names_it(workspace: Workspace) -> None:
    await workspace.run("task", prompt="find\n all " + "x" * 100, agent_type="search")
    assert workspace.tasks.agents[0]["label"] == ("find all " + "x" * 100)[:60]
    assert workspace.tasks.agents[0]["agent_type"] == "search"


async def test_in_the_background_its_number_is_the_result(workspace: Workspace) -> None:
    result = await workspace.run("task", prompt="abc", description="Long work", background=True)
    assert result == "Started in the background as task task-2 (Long work)"


async def test_a_subagent_that_failed_is_an_error_with_what_it_said(workspace: Workspace) -> None:
    workspace.tasks.agent_status = "failed"
    with pytest.raises(ToolError, match="the subagent failed\ncba"):
        await workspace.run("task", prompt="abc")
