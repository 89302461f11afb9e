"""A kept conversation told again."""

from treadle.agent.messages import AssistantMessage, Image, Thinking, ToolCall, ToolResult, UserMessage
from treadle.agent.session import replay
from treadle.agent.transcript import Cleared, MessageRecord, Rewound, TurnBegan
from treadle.events import ImageFile, Message, ToolEnded, ToolStarted, TurnStarted

IMAGE = Image(name="i.png", media_type="image/png", size=1, width=1, height=1)


def where(image: Image) -> ImageFile:
    return ImageFile(path=f"/kept/{image.name}", media_type=image.media_type, size=image.size)


def turn(name: str) -> list[TurnBegan | MessageRecord]:
    call = ToolCall(id=f"c{name}", name="bash", arguments='{"command": "ls"}')
    return [
        TurnBegan(turn=name, prompt=f"do {name}"),
        MessageRecord(message=UserMessage(text=f"do {name}"), turn=name),
        MessageRecord(
            message=AssistantMessage(text="Looking.", thinking=(Thinking(text="hm"),), calls=(call,)), turn=name
        ),
        MessageRecord(message=ToolResult(call=call.id, name="bash", text="a.py", ok=False, images=(IMAGE,)), turn=name),
    ]


def test_a_turn_has_its_prompt_its_words_and_its_tools() -> None:
    asked, thought, said, began, ended = replay(turn("t1"), where)
    assert isinstance(asked, TurnStarted) and (asked.prompt, asked.turn) == ("do t1", "t1")
    assert isinstance(thought, Message) and thought.kind == "thinking"
    assert isinstance(said, Message) and said.text == "Looking."
    assert isinstance(began, ToolStarted) and (began.command, began.kind) == ("ls", "execute")
    assert isinstance(ended, ToolEnded) and (ended.result, ended.ok) == ("a.py", False)
    assert [image.path for image in ended.images] == ["/kept/i.png"]


def prompts(*records: object) -> list[str]:
    return [event.prompt for event in replay(records, where) if isinstance(event, TurnStarted)]  # type: ignore[arg-type]


def test_what_was_cleared_or_taken_back_is_not_told() -> None:
    assert prompts(*turn("a"), Cleared(), *turn("b")) == ["do b"]
    assert prompts(*turn("a"), *turn("b"), *turn("c"), Rewound(turn="b")) == ["do a"]
    assert prompts(*turn("a"), Rewound(turn="x")) == ["do a"]
