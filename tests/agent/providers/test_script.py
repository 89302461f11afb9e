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


def test_replies_without_a_condition_are_played_in_order() -> None:
    assert play("reply = [{text='one'}, {text='two'}]", asked(), asked()) == ["one", "two"]


def test_a_reply_whose_pattern_matches_goes_before_the_order() -> None:
    toml = "reply = [{text='plain'}, {text='yes', when='tests? (pass|fail)'}]"
    assert play(toml, asked("the test failed... tests fail"), asked("hello")) == ["yes", "plain"]


def test_a_reply_can_be_bound_to_the_number_of_the_model_call_and_to_the_system_prompt() -> None:
    toml = "reply = [{text='second', turn=2}, {text='sub', system='subagent', times='always'}, {text='first'}]"
    assert play(toml, asked(), asked(turn=2), asked(system="a subagent")) == ["first", "second", "sub"]


def test_a_reply_can_be_played_several_times_or_always() -> None:
    toml = "reply = [{text='a', times=2}, {text='b', times='always'}]"
    assert play(toml, *[asked()] * 4) == ["a", "a", "b", "b"]


def test_a_script_can_start_again() -> None:
    assert play("loop=true\nreply=[{text='a'},{text='b'}]", *[asked()] * 3) == ["a", "b", "a"]


def test_running_out_of_replies_says_what_was_asked_and_what_to_do() -> None:
    with pytest.raises(ProviderError, match=r"no reply left for 'do it' \(model call 2\).*loop = true") as caught:
        play("reply=[{text='a'}]", asked(), asked("do it", turn=2))
    assert not caught.value.retryable


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


def test_a_look_at_the_next_reply_does_not_use_it_up() -> None:
    player = script.Player(script.parse("reply=[{text='a'}, {text='b'}]"))
    assert [player.peek(asked()).text, player.peek(asked()).text, player.next(asked()).text] == ["a", "a", "a"]
    assert player.next(asked()).text == "b"
