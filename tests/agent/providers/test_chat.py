import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.pixels import png
from tests.agent.providers.helpers import ask, collect, reply, serving
from treadle.agent.messages import (
    AssistantMessage,
    Image,
    ModelRequest,
    Reply,
    ReplyItem,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSchema,
    UserMessage,
)
from treadle.agent.providers.chat import Calls, ChatFormat, ChatReader
from treadle.agent.tools.images import NOT_SHOWN
from treadle.errors import ProviderError, RateLimited

BASH = ToolSchema(name="bash", description="Run it.", parameters={"type": "object"})


def read(*chunks: dict[str, Any] | bytes) -> tuple[list[ReplyItem], Reply]:
    reader = ChatReader("chat", "m")
    items = reader.read([chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode() for chunk in chunks])
    return items, reader.reply()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(name: str | None = None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


async def test_the_request_has_what_the_conversation_has() -> None:
    request = ModelRequest(
        system="be brief",
        messages=(
            UserMessage(text="go"),
            AssistantMessage(calls=(ToolCall(id="c1", name="bash", arguments='{"a":1}'),)),
            ToolResult(call="c1", name="bash", text="done"),
        ),
        tools=(BASH,),
        max_output_tokens=100,
        reasoning="low",
    )
    async with serving("chat", "reply=[{text='x'}]") as (provider, server):
        await collect(provider, request)
    body = server.asked[0].body
    function = {"name": "bash", "arguments": '{"a":1}'}
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    described = {"name": "bash", "description": "Run it.", "parameters": {"type": "object"}}
    assert body["tools"] == [{"type": "function", "function": described}]
    assert (body["max_tokens"], body["reasoning_effort"]) == (100, "low")
    assert body["stream_options"] == {"include_usage": True}
    assert server.asked[0].path == "/v1/chat/completions"


async def test_reasoning_goes_back_within_its_turn_and_to_whom_it_came_from() -> None:
    async with serving("chat", "reply=[{thinking='hm', call=[{name='bash'}]}, {text='a'}, {text='b'}]") as (
        provider,
        server,
    ):
        first = (await reply(provider)).message
        done = ToolResult(call=first.calls[0].id, name="bash", text="ok")
        messages = (*ask().messages, first, done)
        await collect(provider, ModelRequest(system="", messages=messages))
        await collect(provider, ModelRequest(system="", messages=(*messages, UserMessage(text="next"))))
    assert server.asked[1].body["messages"][1]["reasoning"] == "hm"
    assert "reasoning" not in server.asked[2].body["messages"][1]
    stranger = AssistantMessage(text="x", thinking=(Thinking(text="hm", raw={"reasoning": "hm"}, provider="openai"),))
    body = ChatFormat().body(ModelRequest(system="", messages=(stranger,)), "chat", "m")
    assert b"reasoning" not in body


def test_openrouter_gets_what_only_it_understands() -> None:
    request = ModelRequest(system="s", messages=(UserMessage(text="u"),), reasoning="high")
    body = json.loads(ChatFormat(openrouter=True).body(request, "openrouter", "anthropic/claude-x"))
    mark = {"type": "ephemeral"}
    assert body["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": mark}]},
        {"role": "user", "content": [{"type": "text", "text": "u", "cache_control": mark}]},
    ]
    assert (body["usage"], body["reasoning"]) == ({"include": True}, {"effort": "high"})
    other = json.loads(ChatFormat(openrouter=True).body(request, "openrouter", "openai/gpt-x"))
    assert other["messages"][1]["content"] == "u"


def test_usage_is_found_in_a_trailing_chunk_without_choices_and_in_any_other() -> None:
    used = {"prompt_tokens": 10, "completion_tokens": 2}
    for chunks in (
        [delta(content="x", finish="stop"), {"choices": [], "usage": used}],
        [delta(content="x"), {**delta(finish="stop"), "usage": used}],
        [delta(content="x", finish="stop"), {"usage": used}],
        [{**delta(content="x"), "usage": {"prompt_tokens": 1}}, {**delta(finish="stop"), "usage": used}],
    ):
        usage = read(*chunks, b"[DONE]")[1].usage
        assert usage is not None and (usage.input_tokens, usage.output_tokens) == (10, 2)


def test_pieces_of_reasoning_details_become_whole_blocks() -> None:
    piece = {"type": "reasoning.text", "index": 0}
    _, whole = read(
        delta(reasoning="a", reasoning_details=[{**piece, "text": "a"}]),
        delta(reasoning="b", reasoning_details=[{**piece, "text": "b"}]),
        delta(reasoning_details=[{**piece, "text": None, "signature": "s"}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "z"}]),
        delta(content="c", finish="stop"),
    )
    assert whole.message.thinking[0].raw == {
        "reasoning_details": [
            {**piece, "text": "ab", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "z"},
        ]
    }


def test_half_a_surrogate_pair_costs_one_character_and_not_the_reply() -> None:
    half = b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}'
    assert read(half, delta(content="b", finish="stop"))[1].message.text == "a?b"


def calls(*pieces: dict[str, Any]) -> list[tuple[str, str, str]]:
    _, whole = read(*[delta(tool_calls=[piece]) for piece in pieces], delta(finish="tool_calls"))
    return [(made.id, made.name, made.arguments) for made in whole.message.calls]


def test_calls_that_are_all_numbered_zero_are_told_apart_by_id() -> None:
    assert calls(call("a", "{}", index=0, id="1"), call("b", "{}", index=0, id="2")) == [
        ("1", "a", "{}"),
        ("2", "b", "{}"),
    ]


def test_a_call_without_id_gets_one_and_arguments_may_be_a_table() -> None:
    ((made, name, arguments),) = calls({"index": 0, "function": {"name": "a", "arguments": {"x": 1}}})
    assert made.startswith("call_") and (name, json.loads(arguments)) == ("a", {"x": 1})


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.text(max_size=6)), min_size=1, max_size=3), st.data()
)
def test_calls_cut_and_interleaved_in_any_way_come_out_whole(made: list[tuple[str, str]], data: st.DataObject) -> None:
    joined = Calls()
    rest = []
    for index, (name, arguments) in enumerate(made):
        joined.add(index, f"id{index}", name, "")
        places = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
        ends = [0, *places, len(arguments)]
        rest.append([arguments[a:b] for a, b in zip(ends, ends[1:], strict=False)])
    while any(rest):
        index = data.draw(st.sampled_from([at for at, pieces in enumerate(rest) if pieces]))
        joined.add(index, None, None, rest[index].pop(0))
    assert [(one.id, one.name, one.arguments) for one in joined.whole()] == [
        (f"id{at}", name, arguments if arguments.strip() else "{}") for at, (name, arguments) in enumerate(made)
    ]


@pytest.mark.parametrize(
    ("request_", "reasoning"),
    [
        ({"reasoning": "none"}, {"enabled": False}),
        ({"thinking_tokens": 0}, {"enabled": False}),
        ({"thinking_tokens": 500}, {"max_tokens": 500}),
        ({"reasoning": "low"}, {"effort": "low"}),
    ],
)
def test_openrouter_is_told_how_hard_to_think_in_its_own_words(
    request_: dict[str, Any], reasoning: dict[str, Any]
) -> None:
    request = ModelRequest(system="", messages=(), **request_)
    assert json.loads(ChatFormat(openrouter=True).body(request, "openrouter", "m"))["reasoning"] == reasoning


def test_images_of_tools_follow_all_results_and_a_pdf_is_not_shown() -> None:
    image = Image(name="i", media_type="image/png", size=1, width=1, height=1)
    pdf = Image(name="p", media_type="application/pdf", size=1, width=0, height=0)
    messages = (
        UserMessage(text=" ", images=(image, pdf)),
        ToolResult(call="1", name="look", text="a", images=(image,)),
        ToolResult(call="2", name="look", text="b"),
        AssistantMessage(text="c"),
        ToolResult(call="3", name="look", text="d", images=(image,)),
    )
    request = ModelRequest(system="", messages=messages, images={"i": png(), "p": b"%PDF-"})
    sent = json.loads(ChatFormat().body(request, "chat", "m"))["messages"]
    assert [one["role"] for one in sent] == ["user", "tool", "tool", "user", "assistant", "tool", "user"]
    assert [part["type"] for part in sent[0]["content"]] == ["image_url", "text"] and sent[0]["content"][1][
        "text"
    ] == NOT_SHOWN
    for shown in (sent[3], sent[6]):
        assert shown["content"][0] == {"type": "text", "text": "[shown by look]"}
        assert shown["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


def test_an_error_inside_the_stream_and_a_stream_without_an_end_are_errors() -> None:
    with pytest.raises(RateLimited, match="busy"):
        read({"id": "1", "error": {"code": 429, "message": "busy"}, "choices": [delta()["choices"][0]]})
    with pytest.raises(ProviderError, match="stopped with an error"):
        read(delta(content="x", finish="error"))
    with pytest.raises(ProviderError, match="before the end"):
        read(delta(content="x"))
