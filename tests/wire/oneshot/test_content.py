"""The content of a prompt and of a tool's result."""

import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import Unsupported
from treadle.events import CommandRun, FileChanged, ImageFile, ToolEnded, ToolStarted
from treadle.wire.oneshot.content import Content, hunks, prompt_of, tool_use_result, undone

TEXT = {"type": "text", "text": "look"}

IMAGE = {"type": "image", "source": {"type": "base64", "data": "aGk="}}

DOCUMENT = {"type": "document", "source": {"type": "text", "data": "words"}}


def test_texts_are_lines_and_images_keep_their_order() -> None:
    assert prompt_of("plain") == Content("plain") and prompt_of(None) == Content("")
    assert prompt_of([TEXT, IMAGE, TEXT]) == Content("look\nlook", (b"hi",))
    assert prompt_of([DOCUMENT]) == Content("<document>\nwords\n</document>")


def test_a_pdf_is_a_document_and_any_other_kind_is_not() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
    assert prompt_of([TEXT, {"type": "document", "source": source}]) == Content("look", documents=(b"hi",))
    with pytest.raises(Unsupported, match="document .application/msword."):
        prompt_of([{"type": "document", "source": {**source, "media_type": "application/msword"}}])


@pytest.mark.parametrize("block", [7, {}, {"type": "text"}, {"type": "image", "source": 7}, {"type": "document"}])
def test_what_is_neither_is_refused(block: Any) -> None:
    with pytest.raises(Unsupported, match="a prompt"):
        prompt_of([TEXT, block])


TEXTS = st.lists(st.text(alphabet="ab", max_size=2), min_size=1, max_size=12).map(lambda lines: "\n".join(lines) + "\n")


def diff(old: str, new: str) -> str:
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True)))


@given(TEXTS, TEXTS)
def test_a_change_can_be_undone_from_its_hunks(old: str, new: str) -> None:
    assert undone(new, hunks(diff(old, new))) == old


def test_hunks_that_do_not_fit_give_nothing() -> None:
    assert undone("something else\n", hunks(diff("a\n", "b\n"))) is None


def test_an_edit_has_its_patch_and_the_text_before_it() -> None:
    started = ToolStarted(call="c", name="edit_file", args={"file_path": "f", "old_string": "a", "new_string": "b"})
    changed = FileChanged(path="/w/f", change="modified", diff=diff("a\n", "b\n"), call="c")
    told = tool_use_result(ToolEnded(call="c", name="edit_file", result="ok"), started, None, changed, "b\n")
    assert (told["filePath"], told["oldString"], told["newString"], told["originalFile"]) == ("/w/f", "a", "b", "a\n")
    [hunk] = told["structuredPatch"]
    assert (hunk["oldStart"], hunk["newLines"], hunk["lines"]) == (1, 1, ["-a", "+b"])


def test_a_command_has_its_output_and_a_failure_its_words() -> None:
    ran = CommandRun(command="ls", exit_code=0, output="a\nb\n", call="c")
    told = tool_use_result(ToolEnded(call="c", name="bash", result="a\nb"), None, ran)
    assert (told["stdout"], told["stderr"], told["interrupted"]) == ("a\nb", "", False)
    failed = ToolEnded(call="c", name="bash", result="Error: it broke", ok=False)
    assert tool_use_result(failed, None) == "Error: it broke"


def test_a_file_that_was_read_has_its_lines_without_numbers() -> None:
    started = ToolStarted(call="c", name="read_file", args={"file_path": "f"})
    told = tool_use_result(ToolEnded(call="c", name="read_file", result="     3\tone\n     4\ttwo"), started)
    assert told["type"] == "text" and told["file"]["content"] == "one\ntwo" and told["file"]["startLine"] == 3


def test_a_command_that_failed_has_its_code_and_one_without_a_record_its_text() -> None:
    ended = ToolEnded(call="c", name="bash", result="b\n")
    shape = {"stdout": "a", "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
    ran = CommandRun(command="ls", exit_code=3, output="a\n", call="c")
    assert tool_use_result(ended, None, ran) == {**shape, "returnCode": 3}
    assert tool_use_result(ended, None, CommandRun(command="ls", exit_code=0, output="a", call="c")) == shape
    assert tool_use_result(ended, None) == {**shape, "stdout": "b"}
    assert tool_use_result(ToolEnded(call="c", name="run", result="x"), None, ran)["stdout"] == "a"


def test_a_file_that_was_made_has_its_content_and_no_patch() -> None:
    started = ToolStarted(call="c", name="write_file", args={"file_path": "f", "content": "a\n"})
    ended = ToolEnded(call="c", name="write_file", result="ok")
    made = FileChanged(path="/w/f", change="added", diff=diff("", "a\n"), call="c")
    common = {"filePath": "/w/f", "structuredPatch": [], "originalFile": None, "userModified": False}
    assert tool_use_result(ended, started, None, made, "a\n") == {"type": "create", "content": "a\n", **common}
    over = FileChanged(path="/w/f", change="modified", diff=diff("b\n", "a\n"), call="c")
    told = tool_use_result(ended, started, None, over, "a\n")
    assert (told["type"], told["originalFile"], len(told["structuredPatch"])) == ("update", "b\n", 1)
    assert tool_use_result(ended, started, None, over)["originalFile"] is None


def test_edits_have_what_was_asked_for_also_when_no_change_was_seen() -> None:
    args = {"file_path": "f", "edits": [{"old_string": "a"}], "replace_all": 1}
    started = ToolStarted(call="c", name="x", args=args)
    several = tool_use_result(ToolEnded(call="c", name="multi_edit", result="ok"), started)
    assert several["edits"] == args["edits"] and several["filePath"] == "f" and several["structuredPatch"] == []
    one = tool_use_result(ToolEnded(call="c", name="edit_file", result="ok"), started)
    assert one["replaceAll"] is True and (one["oldString"], one["newString"], one["userModified"]) == ("", "", False)
    bare = tool_use_result(
        ToolEnded(call="c", name="edit_file", result="ok"), ToolStarted(call="c", name="x", args="?")
    )
    assert bare["filePath"] == "" and bare["replaceAll"] is False


def test_what_has_no_form_of_its_own_is_its_text() -> None:
    assert tool_use_result(ToolEnded(call="c", name="grep", result="3 found"), None) == "3 found"
    seen = ToolEnded(
        call="c", name="read_file", result="an image", images=(ImageFile(path="p", media_type="image/png", size=1),)
    )
    assert tool_use_result(seen, None) == "an image"
    empty = tool_use_result(ToolEnded(call="c", name="read_file", result="nothing"), None)["file"]
    assert empty == {"filePath": "", "content": "", "numLines": 0, "startLine": 1, "totalLines": None}
    failed = ToolEnded(call="c", name="grep", result="no", ok=False)
    assert tool_use_result(failed, None) == "Error: no"


def test_lines_before_the_first_hunk_and_marks_of_the_end_belong_to_no_hunk() -> None:
    text = "--- a\n+++ b\n@@ -3,2 +4,0 @@\n-x\n-y\n\\ No newline at end of file\n"
    assert hunks(text) == [{"oldStart": 3, "oldLines": 2, "newStart": 4, "newLines": 0, "lines": ["-x", "-y"]}]
    assert hunks("@@ -1 +2 @@") == [{"oldStart": 1, "oldLines": 1, "newStart": 2, "newLines": 1, "lines": []}]
