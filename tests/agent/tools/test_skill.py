import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.tools.session_tools import SKILL
from treadle.errors import ToolError


async def test_a_skill_is_loaded_by_name(workspace: Workspace) -> None:
    workspace.write(".treadle/skills/pdf/SKILL.md", "---\nname: pdf\n---\nUse the script.")
    args = toolbox.decode(SKILL, '{"name": "pdf"}')
    assert SKILL.access(args, workspace.context.resolve).kind == "read"
    assert "Use the script." in await toolbox.run(SKILL, args, workspace.context)


async def test_an_unknown_skill_is_an_error_that_names_the_known_ones(workspace: Workspace) -> None:
    workspace.write(".claude/skills/pdf/SKILL.md", "x")
    with pytest.raises(ToolError, match="pdf"):
        await toolbox.run(SKILL, toolbox.decode(SKILL, '{"name": "doc"}'), workspace.context)


async def test_where_there_are_no_skills_that_is_said(workspace: Workspace) -> None:
    with pytest.raises(ToolError) as caught:
        await toolbox.run(SKILL, toolbox.decode(SKILL, '{"name": "doc"}'), workspace.context)
    assert (caught.value.message, caught.value.hint) == ("there is no skill 'doc'", "there are: none")
