from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent.tools.session_tools import TASK, TaskArgs
from treadle.errors import ToolError
from treadle.events import ErrorInfo


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
    workspace.tasks.agent_error = ErrorInfo(code="x", message="no model")
    with pytest.raises(ToolError, match="^the subagent failed: no model\ncba$"):
        await workspace.run("task", prompt="abc")
    workspace.tasks.agent_output = False
    with pytest.raises(ToolError, match="^the subagent failed: no model$"):
        await workspace.run("task", prompt="abc")
    workspace.tasks.agent_status = "completed"
    assert await workspace.run("task", prompt="abc") == "[the subagent said nothing]"


async def test_an_empty_prompt_and_work_that_cannot_be_started_are_errors_for_the_model(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="the prompt is empty"):
        await workspace.run("task", prompt=" \n")
    assert not workspace.tasks.agents
    with pytest.raises(ToolError) as caught:
        await workspace.run("task", prompt="abc", agent_type="nobody")
    assert (caught.value.message, caught.value.hint) == ("there is no agent type 'nobody'", "try another")


def test_what_a_subagent_does_is_judged_call_by_call_and_starting_it_is_not() -> None:
    access = TASK.access(TaskArgs(prompt="abc"), Path)
    assert (access.tool, access.kind, access.args) == ("task", "read", TaskArgs(prompt="abc"))
