import json
from typing import Any

import pytest

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
from treadle.agent.providers.anthropic import AnthropicFormat, AnthropicReader
from treadle.agent.tools.images import NOT_SHOWN
from treadle.errors import ProviderError

MARK = {"type": "ephemeral"}


def read(*events: dict[str, Any]) -> tuple[list[ReplyItem], Reply]:
    reader = AnthropicReader("anthropic", "m")
    return reader.read([json.dumps(event).encode() for event in events]), reader.reply()


def body(request: ModelRequest, model: str = "claude-opus-4-1") -> dict[str, Any]:
    made: dict[str, Any] = json.loads(AnthropicFormat().body(request, "anthropic", model))
    return made


STOP: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}


async def test_the_request_has_what_the_conversation_has() -> None:
    request = ModelRequest(
        system="be brief",
        messages=(
            UserMessage(text="go"),
            AssistantMessage(
                text="ok",
                calls=(
                    ToolCall(id="c:1", name="bash", arguments='{"a":1}'),
                    ToolCall(id="c2", name="x", arguments="{"),
                ),
            ),
            ToolResult(call="c:1", name="bash", text="done"),
            ToolResult(call="c2", name="x", text="bad arguments", ok=False),
            UserMessage(text="and?"),
        ),
        tools=(ToolSchema(name="bash", description="Run it.", parameters={"type": "object"}),),
        max_output_tokens=100,
    )
    async with serving("anthropic", "reply=[{text='x'}]") as (provider, server):
        await collect(provider, request)
    sent = server.asked[0].body
    assert sent["system"] == [{"type": "text", "text": "be brief", "cache_control": MARK}]
    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": MARK}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c_1", "name": "bash", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "x", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c_1", "content": "done"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "bad arguments", "is_error": True},
                {"type": "text", "text": "and?", "cache_control": MARK},
            ],
        },
    ]
    assert sent["tools"] == [{"name": "bash", "description": "Run it.", "input_schema": {"type": "object"}}]
    assert sent["max_tokens"] == 100
    assert server.asked[0].path == "/v1/messages"
    assert server.asked[0].headers["anthropic-version"] == "2023-06-01"


def test_nothing_empty_is_sent_because_the_service_refuses_it() -> None:
    messages = (UserMessage(text=""), AssistantMessage(text=" "), UserMessage(text="go"))
    (only,) = body(ModelRequest(system="", messages=messages))["messages"]
    assert [block["text"] for block in only["content"]] == ["(nothing)", "go"]


async def test_thinking_goes_back_unchanged_with_its_signature() -> None:
    async with serving("anthropic", "reply=[{thinking='hm ok', call=[{name='bash'}]}, {text='a'}]") as (
        provider,
        server,
    ):
        first = (await reply(provider)).message
        await collect(provider, ModelRequest(system="", messages=(*ask().messages, first)))
    thinking, call = server.asked[1].body["messages"][1]["content"]
    assert thinking == {"type": "thinking", "thinking": "hm ok", "signature": "signed-1"}
    assert call["type"] == "tool_use"


def test_hidden_thinking_goes_back_as_it_came_and_strangers_thoughts_stay_away() -> None:
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    _, whole = read({"type": "content_block_start", "index": 0, "content_block": hidden}, STOP)
    foreign = Thinking(text="x", signature="s", provider="chat")
    unsigned = Thinking(text="x", provider="anthropic")
    message = AssistantMessage(text="t", thinking=(*whole.message.thinking, foreign, unsigned))
    (sent,) = body(ModelRequest(system="", messages=(message,)))["messages"]
    assert sent["content"] == [hidden, {"type": "text", "text": "t"}]


@pytest.mark.parametrize(
    ("model", "effort", "tokens", "thinking"),
    [
        ("claude-opus-4-6", "minimal", None, {"type": "adaptive"}),
        ("claude-opus-4-5", "high", 100, {"type": "enabled", "budget_tokens": 1_024}),
        ("claude-opus-4-5", None, 30_000, {"type": "enabled", "budget_tokens": 30_000}),
        ("claude-opus-4-6", "none", None, {"type": "disabled"}),
        ("claude-opus-4-5", None, 0, {"type": "disabled"}),
    ],
)
def test_thinking_fits_the_model(model: str, effort: Any, tokens: int | None, thinking: dict[str, Any]) -> None:
    made = body(ModelRequest(system="", messages=(), reasoning=effort, thinking_tokens=tokens), model)
    assert made["thinking"] == thinking and made.get("output_config") in (None, {"effort": "low"})
    assert made["max_tokens"] == max(32_000, thinking.get("budget_tokens", 0) + 4_096)


def test_images_are_shown_where_they_are_there_and_a_pdf_is_a_document() -> None:
    image = Image(name="i", media_type="image/png", size=1, width=1, height=1)
    pdf = Image(name="p", media_type="application/pdf", size=1, width=0, height=0)
    gone = Image(name="g", media_type="image/png", size=1, width=1, height=1)
    messages = (UserMessage(text="", images=(image, gone)), ToolResult(call="c", name="t", text="see", images=(pdf,)))
    (sent,) = body(ModelRequest(system="", messages=messages, images={"i": b"x", "p": b"y"}))["messages"]
    shown, missing, result = sent["content"]
    assert shown["type"] == "image" and shown["source"] == {"type": "base64", "media_type": "image/png", "data": "eA=="}
    assert missing == {"type": "text", "text": NOT_SHOWN}
    assert [part["type"] for part in result["content"]] == ["text", "document"] and "is_error" not in result


def test_an_error_inside_the_stream_is_an_error() -> None:
    with pytest.raises(ProviderError, match="Overloaded") as caught:
        read({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert caught.value.retryable
