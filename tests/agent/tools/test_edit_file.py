import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent.tools import files
from treadle.errors import ToolError


async def test_a_file_that_changed_since_it_was_read_is_shown_before_it_is_edited(workspace: Workspace) -> None:
    path = workspace.write("a.txt", "one\ntwo\n")
    await workspace.run("read_file", file_path="a.txt")
    path.write_text("zero\none\ntwo\n")
    with pytest.raises(ToolError, match="(?s)has changed since you read it; nothing was written.*zero"):
        await workspace.run("edit_file", file_path="a.txt", old_string="two", new_string="2")
    assert path.read_text() == "zero\none\ntwo\n"
    await workspace.run("edit_file", file_path="a.txt", old_string="two", new_string="2")
    assert path.read_text() == "zero\none\n2\n"


async def test_a_file_changed_between_load_and_save_is_left_alone(workspace: Workspace) -> None:
    path = workspace.write("a.txt", "one\n")
    loaded = files.load(path)
    path.write_text("theirs\n")
    with pytest.raises(ToolError, match="another process changed"):
        files.save(workspace.context, loaded, b"mine\n", "one\n", "mine\n")
    assert path.read_text() == "theirs\n" and not workspace.backups
