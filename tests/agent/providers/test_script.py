from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.messages import AssistantMessage, ModelRequest, ToolCall, ToolResult, UserMessage
from treadle.agent.providers import script
from treadle.errors import ProviderError


def asked(last: str = "", turn: int = 1, system: str = "") -> script.Cue:
    return script.Cue(last=last, turn=turn, system=system)


def play(toml: str, *requests: script.Cue) -> list[str]:
    player = script.Player(script.parse(toml))
    return [player.next(request).whole_text for request in requests]


def test_a_loop_that_cannot_serve_the_request_still_ends() -> None:
    with pytest.raises(ProviderError, match="no reply left"):
        play("loop=true\nreply=[{text='a', when='never'}]", asked("hello"))


def test_calls_get_ids_that_are_unique_in_a_conversation() -> None:
    reply = script.parse("reply=[{call=[{name='x', arguments={a=1}}, {name='y', arguments='{bad', id='mine'}]}]").reply[
        0
    ]
    assert reply.calls(3) == (
        ToolCall(id="call_3_0", name="x", arguments='{"a":1}'),
        ToolCall(id="mine", name="y", arguments="{bad"),
    )
    assert reply.finish_reason == "tool_calls"


@given(st.text(), st.integers(0, 5), st.integers(1, 3))
def test_the_pieces_make_up_the_text(text: str, piece: int, repeat: int) -> None:
    reply = script.parse("reply=[{}]").reply[0]
    reply = type(reply)(text=text, piece=piece, repeat=repeat)
    assert "".join(reply.pieces) == text * repeat
    assert all(reply.pieces)


def test_a_request_is_asked_by_its_newest_input() -> None:
    call = ToolCall(id="1", name="bash", arguments="{}")
    request = ModelRequest(
        system="be good",
        messages=(
            UserMessage(text="go"),
            AssistantMessage(calls=(call,)),
            ToolResult(call="1", name="bash", text="2 failed"),
        ),
    )
    assert script.Cue.of(request) == script.Cue(last="2 failed", turn=2, system="be good")
    assert script.Cue.of(ModelRequest(system="", messages=())) == script.Cue(last="", turn=1)


def test_every_key_and_fault_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/scripted-model.md").read_text()
    parts = (script.Script, script.ScriptedReply, script.CallLine, script.UsageLine, script.ErrorLine)
    names = {field.name for part in parts for field in msgspec.structs.fields(part)} - {"reply"}
    assert [name for name in sorted(names | set(get_args(script.Fault))) if f"`{name}`" not in page] == []
