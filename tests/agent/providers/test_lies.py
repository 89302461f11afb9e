"""A service whose events are sound JSON and nonsense: a reader makes a reply of it or says so, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.agent.messages import ModelRequest, Reply
from treadle.agent.providers.anthropic import AnthropicFormat
from treadle.agent.providers.chat import ChatFormat
from treadle.agent.providers.http import Format
from treadle.agent.providers.responses import ResponsesFormat
from treadle.agent.providers.script import parse
from treadle.errors import ProviderError
from treadle.testing.server import Play, anthropic, chat, responses

FULL = parse(
    "reply=[{text='a b', thinking='c d', usage={input=1, cache_read=2}, cost=0.1, call=[{name='x'}, {name='y'}]}]"
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [path, *(place for key, part in inside for place in places(part, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], junk)
    return copy


@pytest.mark.parametrize(
    ("format", "form"),
    [(ChatFormat(), chat), (ResponsesFormat(), responses), (AnthropicFormat(), anthropic)],
    ids=["chat", "responses", "anthropic"],
)
@settings(max_examples=200)
@given(data=st.data())
@pytest.mark.slow
def test_no_lie_gets_past_a_reader_as_a_traceback(format: Format, form: Any, data: st.DataObject) -> None:
    play = Play(reply=FULL.reply[0], model="m2", turn=1, id="1")
    events = [event.split(b"data: ", 1)[1].strip() for event in form.events(play)]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(events) - 1))
        if events[at] == b"[DONE]":
            continue
        event = json.loads(events[at])
        place = data.draw(st.sampled_from(places(event)))
        events[at] = json.dumps(replaced(event, place, data.draw(JUNK))).encode()
    reader = format.reader("acme", "m")
    try:
        reader.read(events)
        reply = reader.reply()
    except ProviderError:
        return
    assert isinstance(reply, Reply)
    again = format.body(ModelRequest(system="", messages=(reply.message,)), "acme", "m")
    assert isinstance(json.loads(again), dict), "what was accepted can be sent back"
