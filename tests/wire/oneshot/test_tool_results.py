"""What programs that show Claude Code's work read of a result."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from treadle.events import CommandRun, FileChanged, ToolEnded, ToolStarted
from treadle.wire.oneshot.tool_results import hunks, tool_use_result, undone

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
