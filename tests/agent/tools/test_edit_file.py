import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent.tools import files
from treadle.errors import ToolError
from treadle.events import FileChanged


async def test_the_result_is_the_diff(workspace: Workspace) -> None:
    path = workspace.write("a.py", "a = 1\nb = 2\nc = 3\n")
    result = await workspace.edit("edit_file", file_path="a.py", old_string="b = 2", new_string="b = 20")
    assert path.read_text() == "a = 1\nb = 20\nc = 3\n"
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 20\n c = 3\n"
    assert result == f"Edited a.py\n{diff}"
    [event] = workspace.events
    assert isinstance(event, FileChanged) and event.diff == diff and event.change == "modified"
    assert workspace.backups == [(path, b"a = 1\nb = 2\nc = 3\n")]


async def test_a_file_that_was_not_read_is_shown_first_and_edited_when_asked_again(workspace: Workspace) -> None:
    path = workspace.write("a.py", "if x:\n    y = 1\n")
    with pytest.raises(ToolError, match="(?s)you have not read .*nothing was written.*    y = 1"):
        await workspace.run("edit_file", file_path="a.py", old_string="y = 1", new_string="y = 2")
    assert path.read_text() == "if x:\n    y = 1\n"
    await workspace.run("edit_file", file_path="a.py", old_string="y = 1", new_string="y = 2")
    assert path.read_text() == "if x:\n    y = 2\n"
    await workspace.run("edit_file", file_path="a.py", old_string="y = 2", new_string="y = 3")
    assert path.read_text() == "if x:\n    y = 3\n"  # what one wrote oneself is known


async def test_of_a_long_file_that_was_not_read_the_place_is_shown(workspace: Workspace) -> None:
    workspace.write("a.py", "".join(f"line_{number} = {number}\n" for number in range(5000)))
    with pytest.raises(ToolError, match=r"(?s)not read .*\n +4001\tline_4000 = 4000") as caught:
        await workspace.run("edit_file", file_path="a.py", old_string="line_4000 = 4000", new_string="x = 1")
    assert len(caught.value.message) < 2000


async def test_an_empty_old_string_makes_a_new_file_and_fills_an_empty_one(workspace: Workspace) -> None:
    await workspace.edit("edit_file", file_path="new/a.py", old_string="", new_string="é = 1\n")
    assert (workspace.root / "new/a.py").read_text() == "é = 1\n"
    workspace.write("empty.py", "")
    await workspace.edit("edit_file", file_path="empty.py", old_string="", new_string="x\n")
    assert (workspace.root / "empty.py").read_text() == "x\n"
    with pytest.raises(ToolError, match="old_string is empty"):
        await workspace.edit("edit_file", file_path="empty.py", old_string="", new_string="y\n")


async def test_editing_a_missing_file_is_an_error_that_helps(workspace: Workspace) -> None:
    workspace.write("parser.py", "x\n")
    with pytest.raises(ToolError, match="did you mean .*parser.py"):
        await workspace.edit("edit_file", file_path="praser.py", old_string="x", new_string="y")


async def test_crlf_and_a_byte_order_mark_are_kept(workspace: Workspace) -> None:
    path = workspace.write("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    await workspace.edit("edit_file", file_path="a.txt", old_string="one\ntwo", new_string="1\n2")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n"


async def test_bytes_that_are_no_utf8_survive_an_edit_elsewhere(workspace: Workspace) -> None:
    path = workspace.write("a.txt", b"stray \xff byte\nna\xc3\xafve\nx = 1\n")
    await workspace.edit("edit_file", file_path="a.txt", old_string="naïve\nx = 1", new_string="naïve\nx = 2")
    assert path.read_bytes() == b"stray \xff byte\nna\xc3\xafve\nx = 2\n"


async def test_a_file_in_another_encoding_is_edited_in_it(workspace: Workspace) -> None:
    path = workspace.write("latin.txt", "caf\xe9\n".encode("latin-1"))
    await workspace.edit("edit_file", file_path="latin.txt", old_string="café", new_string="thé")
    assert path.read_bytes() == "th\xe9\n".encode("latin-1")
    with pytest.raises(ToolError, match="cp1252, which has no"):
        await workspace.edit("edit_file", file_path="latin.txt", old_string="thé", new_string="日本")
    wide = workspace.write("wide.txt", b"\xff\xfe" + "one\r\n".encode("utf-16-le"))
    await workspace.edit("edit_file", file_path="wide.txt", old_string="one", new_string="日本")
    assert wide.read_bytes() == b"\xff\xfe" + "日本\r\n".encode("utf-16-le")


async def test_binary_files_are_not_edited(workspace: Workspace) -> None:
    workspace.write("a.bin", b"abc\0def")
    with pytest.raises(ToolError, match="binary file; only text"):
        await workspace.edit("edit_file", file_path="a.bin", old_string="abc", new_string="x")


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
    with pytest.raises(ToolError, match="at this very moment"):
        files.save(workspace.context, loaded, b"mine\n", "one\n", "mine\n")
    assert path.read_text() == "theirs\n" and not workspace.backups


async def test_a_file_that_is_too_big_to_edit_says_what_to_use(workspace: Workspace) -> None:
    with open(workspace.root / "big", "wb") as file:
        file.truncate(files.MAX_EDIT + 1)
    with pytest.raises(ToolError, match="use bash"):
        await workspace.edit("edit_file", file_path="big", old_string="a", new_string="b")


async def test_what_cannot_be_written_in_the_files_encoding_is_named_with_what_to_do(workspace: Workspace) -> None:
    workspace.write("latin.txt", b"caf\xe9\n")
    with pytest.raises(ToolError) as caught:
        await workspace.edit("edit_file", file_path="latin.txt", old_string="café", new_string="caf日")
    assert "latin.txt is cp1252, which has no '日'; nothing was written" in caught.value.message
    assert (caught.value.hint or "").startswith("use characters that the file's encoding has")
    workspace.write("half.txt", b"\xff\xfea")
    with pytest.raises(ToolError, match="is not text in any encoding known here"):
        await workspace.edit("edit_file", file_path="half.txt", old_string="a", new_string="b")
