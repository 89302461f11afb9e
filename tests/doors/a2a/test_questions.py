"""A question as a message, and a reply as an answer: nothing that is unclear allows anything."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.doors.a2a.door import answer_of
from treadle.events import Asked
from treadle.wire.a2a.messages import A2aMessage, A2aPart, Malformed

MAY = Asked(request="q", kind="permission", text="May it?", name="bash", args={"command": "rm x"}, command="rm x")


def reply(part: str | dict[str, Any]) -> A2aMessage:
    return A2aMessage(id="m", role="user", parts=(A2aPart(text=part) if isinstance(part, str) else A2aPart(data=part),))


@given(st.text())
def test_no_words_allow_a_permission_but_those_that_are_named(text: str) -> None:
    try:
        answer = answer_of(MAY, reply(text))
    except Malformed:
        return
    word = text.strip().strip(".,:;!").lower()
    assert answer.decision == "deny" or word in ("allow", "yes", "approve", "once", "session", "always")
