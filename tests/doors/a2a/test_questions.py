"""A question as a message, and a reply as an answer: nothing that is unclear allows anything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.doors.a2a.door import answer_of, parts_of
from treadle.events import Asked
from treadle.session import Answer
from treadle.wire.a2a.messages import A2aMessage, A2aPart, Malformed

MAY = Asked(request="q", kind="permission", text="May it?", name="bash", args={"command": "rm x"}, command="rm x")
PLAN = Asked(request="q", kind="plan", text="The plan.")
WHICH = Asked(request="q", kind="question", text="Which?", options=("red", "blue"))


def reply(part: str | dict[str, Any]) -> A2aMessage:
    return A2aMessage(id="m", role="user", parts=(A2aPart(text=part) if isinstance(part, str) else A2aPart(data=part),))


@pytest.mark.parametrize(
    ("asked", "text", "answer"),
    [
        (MAY, "allow", Answer(decision="allow")),
        (MAY, " Yes! ", Answer(decision="allow")),
        (MAY, "always", Answer(decision="allow", scope="always")),
        (MAY, "no, it is not yours", Answer(decision="deny", text="it is not yours")),
        (PLAN, "approve", Answer(decision="allow")),
        (WHICH, "2", Answer(decision="allow", text="blue")),
        (WHICH, "3", Answer(decision="allow", text="3")),
        (WHICH, "green", Answer(decision="allow", text="green")),
    ],
)
def test_a_reply_in_words_is_an_answer(asked: Asked, text: str, answer: Answer) -> None:
    assert answer_of(asked, reply(text)) == answer


@pytest.mark.parametrize(
    ("asked", "text"),
    [(MAY, "allow it, but only in /tmp"), (MAY, "session 2"), (MAY, ""), (PLAN, "always"), (PLAN, "fine"), (WHICH, "")],
)
def test_a_reply_that_says_more_or_something_else_is_refused(asked: Asked, text: str) -> None:
    with pytest.raises(Malformed):
        answer_of(asked, reply(text))


@given(st.text())
def test_no_words_allow_a_permission_but_those_that_are_named(text: str) -> None:
    try:
        answer = answer_of(MAY, reply(text))
    except Malformed:
        return
    word = text.strip().strip(".,:;!").lower()
    assert answer.decision == "deny" or word in ("allow", "yes", "approve", "once", "session", "always")


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({"decision": "deny", "text": "no"}, Answer(decision="deny", text="no")),
        ({"decision": "allow", "scope": "session"}, Answer(decision="allow", scope="session")),
        ({"decision": "allow", "args": {"command": "ls"}}, Answer(decision="allow", changed_args={"command": "ls"})),
    ],
)
def test_a_reply_in_data_is_an_answer(data: dict[str, Any], answer: Answer) -> None:
    assert answer_of(MAY, reply(data)) == answer


@pytest.mark.parametrize(
    "data",
    [
        {"decision": "maybe"},
        {"decision": True},
        {"decision": "allow", "scope": "forever"},
        {"decision": "deny", "text": 1},
    ],
)
def test_data_that_is_no_decision_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        answer_of(MAY, reply(data))


def test_a_question_is_told_in_words_and_as_data() -> None:
    words, data = parts_of(MAY)
    assert words.text == "May it?\nrm x\nReply with allow, session, always, or deny and a reason."
    assert data.data == {"question": "permission", "request": "q", "tool": "bash", "args": MAY.args, "paths": []}
    words, data = parts_of(WHICH)
    assert words.text == "Which?\n1. red\n2. blue" and data.data["options"] == ["red", "blue"]
    assert "approve" in str(parts_of(PLAN)[0].text)


def test_what_is_shown_of_a_call_is_its_command_its_paths_or_its_arguments() -> None:
    paths = Asked(request="q", kind="permission", text="May it?", name="write", paths=("a", "b"), args={"x": 1})
    assert str(parts_of(paths)[0].text).split("\n")[1] == "a, b" and parts_of(paths)[1].data["paths"] == ["a", "b"]
    bare = Asked(request="q", kind="permission", text="May it?", name="own", args={"x": 1})
    assert str(parts_of(bare)[0].text).split("\n")[1] == '{"x":1}'
    none = Asked(request="q", kind="permission", text="May it?")
    assert str(parts_of(none)[0].text).startswith("May it?\nReply with") and "tool" not in parts_of(none)[1].data
    long = Asked(request="q", kind="permission", text="", command="x" * 3000)
    assert str(parts_of(long)[0].text).split("\n")[0] == "x" * 2000
    free = Asked(request="q", kind="question", text="Which?")
    assert parts_of(free)[0].text == "Which?" and "options" not in parts_of(free)[1].data


@pytest.mark.parametrize(
    ("asked", "part", "answer"),
    [
        (WHICH, "0", Answer(decision="allow", text="0")),
        (WHICH, "1", Answer(decision="allow", text="red")),
        (WHICH, {"decision": "allow", "text": " 2 "}, Answer(decision="allow", text="blue")),
        (WHICH, {"decision": "deny"}, Answer(decision="deny")),
        (MAY, "deny", Answer(decision="deny")),
        (MAY, "once", Answer(decision="allow")),
        (MAY, {"decision": "allow", "text": "1"}, Answer(decision="allow", text="1")),
        (PLAN, "deny first this", Answer(decision="deny", text="first this")),
    ],
)
def test_only_a_question_has_numbers_to_choose(asked: Asked, part: Any, answer: Answer) -> None:
    assert answer_of(asked, reply(part)) == answer


def test_what_is_wanted_instead_is_said() -> None:
    with pytest.raises(Malformed, match="asks for allow, session, always, or deny and a reason, not 'fine'"):
        answer_of(MAY, reply("fine"))
    with pytest.raises(Malformed, match="asks for approve, or deny and a reason"):
        answer_of(PLAN, reply("fine"))
    with pytest.raises(Malformed, match="there is no text"):
        answer_of(WHICH, reply({"decision": "allow"}))
