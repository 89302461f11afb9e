import pytest

from tests.agent.tools.workspace import Workspace
from treadle.errors import ToolError
from treadle.session import Answer


async def test_the_answer_is_the_result(workspace: Workspace) -> None:
    workspace.answer = Answer(decision="allow", text="the second")
    assert await workspace.run("ask_user", question="Which?", options=["the first", "the second"]) == "the second"
    assert workspace.questions == [("Which?", ("the first", "the second"))]


async def test_when_nobody_answers_that_is_told_with_what_to_do(workspace: Workspace) -> None:
    workspace.answer = Answer(decision="deny", text="no one can be asked here")
    with pytest.raises(ToolError, match="no one can be asked here.*decide yourself"):
        await workspace.run("ask_user", question="Which?")


async def test_an_empty_question_is_not_asked(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="empty"):
        await workspace.run("ask_user", question=" ")
    assert not workspace.questions


async def test_an_answer_without_words_is_a_yes_and_a_denial_without_words_is_that_no_one_answered(
    workspace: Workspace,
) -> None:
    workspace.answer = Answer(decision="allow")
    assert await workspace.run("ask_user", question="Go on?") == "yes" and workspace.questions == [("Go on?", ())]
    workspace.answer = Answer(decision="deny")
    with pytest.raises(ToolError, match="^no answer: no one answered"):
        await workspace.run("ask_user", question="Go on?")
