"""Going on with a session after one of its lines."""

from pathlib import Path

import pytest

from treadle.agent.claude_lines import lines
from treadle.agent.messages import AssistantMessage, Thinking, ToolCall, ToolResult, UserMessage
from treadle.agent.native import cut_after
from treadle.agent.transcript import MessageRecord, Rewound, Transcript, TurnBegan
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


def test_what_was_cut_off_is_still_in_the_file(transcript: Transcript) -> None:
    before = transcript.records
    transcript.append(*cut_after(transcript, uuids(transcript)[1]))
    assert transcript.records[: len(before)] == before
    assert [message.text for message in transcript.view() if isinstance(message, UserMessage)] == ["one"]


def test_a_line_that_the_session_does_not_have_is_not_found(transcript: Transcript) -> None:
    with pytest.raises(NotFound, match="no message nope"):
        cut_after(transcript, "nope")


def test_the_first_turn_is_cut_too_and_a_message_outside_of_any_turn_is_not_found(tmp_path: Path) -> None:
    made = Transcript.create(cwd=str(tmp_path), model="m")
    made.append(MessageRecord(message=AssistantMessage(text="before any turn")))
    with pytest.raises(NotFound) as caught:
        cut_after(made, uuids(made)[0])
    assert made.header.id in caught.value.message and "uuid of an assistant line" in (caught.value.hint or "")
    made.append(TurnBegan(turn="t1", prompt="one"), MessageRecord(message=UserMessage(text="one"), turn="t1"))
    rewound, began, message = cut_after(made, uuids(made)[1])
    assert isinstance(rewound, Rewound) and rewound.turn == "t1" and rewound.listing is not None
    assert (rewound.listing.turns, rewound.listing.prompt) == (0, "")
    assert isinstance(began, TurnBegan) and isinstance(message, MessageRecord) and message.message.text == "one"


def test_thinking_without_words_is_no_line(tmp_path: Path) -> None:
    made = Transcript.create(cwd=str(tmp_path), model="m")
    thoughts = (Thinking(text=""), Thinking(text="a"), Thinking(text="b"))
    calls = (ToolCall(id="c1", name="bash", arguments="{}"), ToolCall(id="c2", name="bash", arguments="{}"))
    message = AssistantMessage(thinking=thoughts, calls=calls)
    made.append(TurnBegan(turn="t", prompt="p"), MessageRecord(message=message, turn="t"))
    cuts = [cut_after(made, uuid)[-1] for uuid in uuids(made)]
    left = [cut.message for cut in cuts if isinstance(cut, MessageRecord)]
    assert [(len(one.thinking), len(one.calls)) for one in left if isinstance(one, AssistantMessage)] == [
        (1, 0),
        (2, 0),
        (3, 1),
        (3, 2),
    ]
