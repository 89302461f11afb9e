"""Going on with a session after one of its lines."""

from pathlib import Path

import pytest

from treadle.agent.claude_lines import lines
from treadle.agent.messages import AssistantMessage, Thinking, ToolCall, ToolResult, UserMessage
from treadle.agent.native import cut_after
from treadle.agent.transcript import MessageRecord, Transcript, TurnBegan
from treadle.errors import NotFound


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    made = Transcript.create(cwd=str(tmp_path), model="m")
    calls = (ToolCall(id="c1", name="bash", arguments="{}"), ToolCall(id="c2", name="bash", arguments="{}"))
    answer = AssistantMessage(text="I look.", thinking=(Thinking(text="hm"),), calls=calls)
    for turn, messages in {
        "t1": (UserMessage(text="one"), AssistantMessage(text="first")),
        "t2": (UserMessage(text="two"), answer, ToolResult(call="c1", name="bash", text="a")),
    }.items():
        made.append(
            TurnBegan(turn=turn, prompt=messages[0].text), *(MessageRecord(message=m, turn=turn) for m in messages)
        )
    return made


def uuids(transcript: Transcript) -> list[str]:
    return [str(line["uuid"]) for line in lines(transcript, "x")]


def test_each_line_can_be_the_last_one_and_keeps_its_uuid(transcript: Transcript, tmp_path: Path) -> None:
    every = uuids(transcript)
    assert len(every) == 8
    for place, uuid in enumerate(every):
        copy = Transcript.create(cwd=str(tmp_path), model="m", forked=transcript)
        copy.append(*cut_after(transcript, uuid))
        assert uuids(copy) == every[: place + 1]
        assert copy.listing.turns == (1 if place < 2 else 2) and copy.listing.prompt == "one"


def test_a_line_that_the_session_does_not_have_is_not_found(transcript: Transcript) -> None:
    with pytest.raises(NotFound, match="no message nope"):
        cut_after(transcript, "nope")
