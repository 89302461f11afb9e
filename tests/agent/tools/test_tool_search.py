"""Tools that are too many to show are found by name or by words."""

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent.hooks import ProgramTool
from treadle.agent.tools.base import DEFERRED, FOUND, AnyTool
from treadle.agent.tools.tool_search import MOST, TOOL_SEARCH, SearchArgs, search
from treadle.errors import ToolError
from treadle.session import OwnTool


async def nothing(arguments: object) -> str:
    return ""


def tool(name: str, description: str) -> AnyTool:
    return ProgramTool(OwnTool(name=name, description=description, parameters={}, call=nothing))


TOOLS = [
    tool("mcp__mail__send", "Send a letter to somebody.\nMore words."),
    tool("mcp__mail__list", "All letters that came."),
    tool("mcp__files__letter", "A file that begins like a letter."),
]


def names(query: str) -> list[str]:
    return [found.name for found in search(TOOLS, query)]


def test_exact_names_are_all_that_is_found() -> None:
    assert names("mcp__mail__LIST, mcp__files__letter") == ["mcp__mail__list", "mcp__files__letter"]


def test_a_word_in_the_name_counts_more_than_in_the_description() -> None:
    assert names("letter") == ["mcp__files__letter", "mcp__mail__send", "mcp__mail__list"]
    assert names("send letter") == ["mcp__mail__send", "mcp__files__letter", "mcp__mail__list"]
    assert names("weather") == []


def test_no_more_than_a_few_are_found_and_the_first_come_first() -> None:
    many = [tool(f"mcp__x__t{number}", "the same words") for number in range(3 * MOST)]
    assert [found.name for found in search(many, "words")] == [f"mcp__x__t{number}" for number in range(MOST)]


async def test_what_was_found_is_remembered_for_the_next_step(workspace: Workspace) -> None:
    context = workspace.context
    context.state[DEFERRED] = TOOLS
    assert await TOOL_SEARCH.run(SearchArgs(query="send"), context) == "mcp__mail__send: Send a letter to somebody."
    assert list(context.state[FOUND]) == ["mcp__mail__send"]
    with pytest.raises(ToolError, match="no tool matches 'weather'") as caught:
        await TOOL_SEARCH.run(SearchArgs(query="weather"), context)
    assert caught.value.hint == "the servers are files, mail; try other words"
