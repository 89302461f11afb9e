import pytest

from tests.agent.tools.workspace import Workspace
from treadle.errors import ToolError


async def test_edits_are_made_in_order_each_on_the_result_of_the_last(workspace: Workspace) -> None:
    path = workspace.write("a.py", "a = 1\nb = 2\n")
    edits = [{"old_string": "a = 1", "new_string": "b = 1"}, {"old_string": "b = 1\n", "new_string": ""}]
    await workspace.edit("multi_edit", file_path="a.py", edits=edits)
    assert path.read_text() == "b = 2\n" and len(workspace.events) == 1


async def test_when_one_edit_cannot_be_made_none_is_and_it_is_named(workspace: Workspace) -> None:
    path = workspace.write("a.py", "a = 1\nb = 2\n")
    edits = [{"old_string": "a = 1", "new_string": "a = 2"}, {"old_string": "not there", "new_string": ""}]
    with pytest.raises(ToolError, match="edit 2 of 2: .*no edit was made"):
        await workspace.edit("multi_edit", file_path="a.py", edits=edits)
    assert path.read_text() == "a = 1\nb = 2\n" and not workspace.events and not workspace.backups


async def test_a_new_file_can_be_made_by_its_first_edit(workspace: Workspace) -> None:
    edits = [{"old_string": "", "new_string": "a b\n"}, {"old_string": "b", "new_string": "c"}]
    await workspace.edit("multi_edit", file_path="a.py", edits=edits)
    assert (workspace.root / "a.py").read_text() == "a c\n"


async def test_no_edits_and_edits_that_cancel_out_are_refused(workspace: Workspace) -> None:
    workspace.write("a.py", "a\n")
    with pytest.raises(ToolError, match="nothing to change"):
        await workspace.edit("multi_edit", file_path="a.py", edits=[])
    with pytest.raises(ToolError, match="leave the file as it is"):
        await workspace.edit(
            "multi_edit",
            file_path="a.py",
            edits=[{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "a"}],
        )
