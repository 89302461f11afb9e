"""What a call is sent back for."""

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.agent.messages import AssistantMessage, ChatMessage, ToolCall, ToolResult, ToolSchema, UserMessage
from treadle.agent.providers.small import Objection, right_call, to_answer, to_call


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.json").write_text("{broken")
    return tmp_path


def step(name: str, ok: bool = True, **arguments: Any) -> tuple[ChatMessage, ...]:
    call = ToolCall(id=f"{name}{arguments}", name=name, arguments=json.dumps(arguments))
    return AssistantMessage(calls=(call,)), ToolResult(call=call.id, name=name, text="", ok=ok)


def objects(place: Path, turn: tuple[ChatMessage, ...], name: str, **arguments: Any) -> Objection | None:
    call = ToolCall(id="new", name=name, arguments=json.dumps(arguments))
    return to_call(call, (UserMessage(text="go"), *turn), str(place))


def test_reading_again_what_is_shown(place: Path) -> None:
    read = step("read_file", file_path="a.py")
    found = objects(place, read, "read_file", file_path="a.py")
    assert found is not None and found.without == "read_file"
    changed = step("edit_file", file_path="a.py", old_string="1", new_string="2")
    assert objects(place, (*read, *changed), "read_file", file_path="a.py") is None


def test_a_call_that_was_made_and_changed_nothing(place: Path) -> None:
    failed = step("bash", ok=False, command="make")
    assert objects(place, failed, "bash", command="make") is not None
    edit = step("edit_file", file_path="a.py", old_string="1", new_string="2")
    assert objects(place, (*failed, *edit), "bash", command="make") is None


def test_writing_over_a_file_that_this_turn_did_not_write(place: Path) -> None:
    found = objects(place, (), "write_file", file_path="a.py", content="y = 1\n")
    assert found is not None and found.without == "write_file"
    own = step("write_file", file_path="a.py", content="x = 1\n")
    assert objects(place, own, "write_file", file_path="a.py", content="y = 1\n") is None
    assert objects(place, (), "write_file", file_path="new.py", content="y = 1\n") is None


def test_a_file_that_could_not_be_edited_may_be_written_anew(place: Path) -> None:
    failed = step("edit_file", ok=False, file_path="a.py", old_string="q", new_string="r")
    assert objects(place, failed, "write_file", file_path="a.py", content="y = 1\n") is None


def test_a_call_or_an_answer_that_is_our_own_example(place: Path) -> None:
    example = json.loads(right_call(ToolSchema(name="write_file", description="", parameters={})))
    name = example.pop("tool")
    call = ToolCall(id="1", name=name, arguments=json.dumps(example, separators=(",", ":")))
    assert to_call(call, (), str(place)) is not None
    assert to_answer("I made colors.py with RED and BLUE.", (), str(place)) is not None


def test_an_edit_that_changes_nothing(place: Path) -> None:
    found = objects(place, (), "edit_file", file_path="a.py", old_string="x", new_string="x")
    assert found is not None and "the same" in found.text


def test_code_that_does_not_parse(place: Path) -> None:
    found = objects(place, (), "write_file", file_path="new.py", content="def f(:\n")
    assert found is not None and "line 1" in found.text and not found.without
    (place / "kept.py").write_text("key = 'secret'\nx = 1\n")
    found = objects(place, (), "edit_file", file_path="kept.py", old_string="key", new_string="key +")
    assert found is not None and "secret" not in found.text
    assert objects(place, (), "write_file", file_path="new.json", content='{"a": 1,}') is not None
    assert objects(place, (), "edit_file", file_path="a.py", old_string="1", new_string="(") is not None
    assert objects(place, (), "edit_file", file_path="a.py", old_string="1", new_string="2") is None


def test_a_file_that_was_broken_before_may_stay_so_and_an_edit_without_a_place_is_left_to_the_tool(place: Path) -> None:
    assert objects(place, (), "edit_file", file_path="b.json", old_string="{", new_string="[") is None
    assert objects(place, (), "edit_file", file_path="a.py", old_string="gone", new_string="(") is None
    assert objects(place, (), "edit_file", file_path="gone.py", old_string="x", new_string="(") is None


@pytest.mark.parametrize("text", ["Here:\n```python\nx = 2\n```", "I renamed x to y.", "Created new.py"])
def test_an_answer_that_says_that_something_was_done_which_was_not(place: Path, text: str) -> None:
    looked = (
        AssistantMessage(calls=(ToolCall(id="look-1", name="bash", arguments="{}"),)),
        ToolResult(call="look-1", name="bash", text="a.py"),
    )
    found = to_answer(text, looked, str(place))
    assert found is not None and found.without == "answer"
    assert to_answer("x is 1", looked, str(place)) is None
    assert to_answer(text, step("write_file", file_path="a.py", content=""), str(place)) is None


def test_an_answer_that_leaves_a_name_without_its_definition(place: Path) -> None:
    (place / "a.py").write_text("def circle_area(r):\n    return r\n\n\nprint(area(1))\n")
    edited = step("edit_file", file_path="a.py", old_string="x", new_string="y")
    found = to_answer("Renamed it.", edited, str(place))
    assert found is not None and "Line 5 of a.py uses area" in found.text


@pytest.mark.parametrize(
    ("task", "left"),
    [
        ('Set "x" to 5.', "5"),
        ('Set "x" to 1.', None),
        ('Set "debug" to 1 in a.py.', "debug"),
        ("Use `other` from version 3.11.2 on, in line2.", "other"),
        ("Rename it.", None),
    ],
)
def test_an_answer_after_which_a_number_or_a_quoted_text_of_the_task_is_nowhere(
    place: Path, task: str, left: str | None
) -> None:
    edited = step("edit_file", file_path="a.py", old_string="x", new_string="y")
    found = to_answer("All done.", (UserMessage(text=task), *edited), str(place))
    assert (found is None) == (left is None) and (left is None or f"{left!r}" in found.text)  # type: ignore[union-attr]


def test_a_file_that_is_not_there_is_not_read(place: Path) -> None:
    assert objects(place, (), "read_file", file_path="gone.py") is not None
    assert objects(place, (), "read_file", file_path="a.py") is None


def test_a_call_counts_as_made_only_since_files_last_changed(place: Path) -> None:
    write = step("write_file", file_path="x.txt", content="1")
    assert objects(place, write, "write_file", file_path="x.txt", content="1") is not None, "the change itself counts"
    failed = step("edit_file", ok=False, file_path="a.py", old_string="q", new_string="r")
    read = step("read_file", file_path="a.py")
    assert objects(place, (*read, *failed), "read_file", file_path="a.py") is not None, "nothing was changed"
    lost = ToolResult(call="nowhere", name="read_file", text="")
    assert objects(place, (lost,), "read_file", file_path="a.py") is None


def test_other_files_of_this_turn_do_not_make_one_its_own(place: Path) -> None:
    for other in (
        step("write_file", file_path="b.py", content="y"),
        step("edit_file", file_path="a.py", old_string="x", new_string="y"),
        step("read_file", file_path="a.py"),
    ):
        assert objects(place, other, "write_file", file_path="a.py", content="y = 1\n") is not None
    (place / "empty.py").touch()
    assert objects(place, (), "write_file", file_path="empty.py", content="y = 1\n") is None
