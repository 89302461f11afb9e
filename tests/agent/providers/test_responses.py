import json
from typing import Any

import pytest

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
from treadle.agent.providers.responses import ResponsesFormat, ResponsesReader
from treadle.agent.tools.images import NOT_SHOWN
from treadle.errors import ProviderError


def read(*events: dict[str, Any]) -> tuple[list[ReplyItem], Reply]:
    reader = ResponsesReader("openai", "m")
    return reader.read([json.dumps(event).encode() for event in events]), reader.reply()


def body(request: ModelRequest, model: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(ResponsesFormat().body(request, "openai", model))
    return made


async def test_the_request_has_what_the_conversation_has() -> None:
    request = ModelRequest(
        system="be brief",
        messages=(
            UserMessage(text="go"),
            AssistantMessage(text="ok", calls=(ToolCall(id="c1", name="bash", arguments='{"a":1}'),)),
            ToolResult(call="c1", name="bash", text="done"),
        ),
        tools=(ToolSchema(name="bash", description="Run it.", parameters={"type": "object"}),),
        max_output_tokens=100,
    )
    async with serving("openai", "reply=[{text='x'}]") as (provider, server):
        await collect(provider, request)
    sent = server.asked[0].body
    assert sent["instructions"] == "be brief"
    assert sent["input"] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "ok"},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
    ]
    tool = {"type": "function", "name": "bash", "description": "Run it.", "parameters": {"type": "object"}}
    assert sent["tools"] == [{**tool, "strict": False}]
    assert (sent["store"], sent["max_output_tokens"]) == (False, 100)
    assert server.asked[0].path == "/v1/responses"


async def test_reasoning_items_go_back_unchanged_before_what_they_led_to() -> None:
    async with serving("openai", "reply=[{thinking='hm', call=[{name='bash'}]}, {text='a'}]") as (provider, server):
        first = (await reply(provider)).message
        await collect(provider, ModelRequest(system="", messages=(*ask().messages, first)))
    reasoning, call = server.asked[1].body["input"][1:]
    assert reasoning["type"] == "reasoning" and reasoning["encrypted_content"] == "sealed"
    assert call["type"] == "function_call"


@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "server_error", "message": "oh"}},
        },
        {"type": "error", "code": "server_error", "message": "oh"},
        {"error": {"type": "server_error", "message": "oh"}},
    ],
)
def test_a_failure_inside_the_stream_is_an_error(event: dict[str, Any]) -> None:
    with pytest.raises(ProviderError, match="oh") as caught:
        read(event)
    assert caught.value.retryable


def test_images_are_shown_where_they_are_there_and_a_pdf_is_a_file() -> None:
    image = Image(name="i", media_type="image/png", size=1, width=1, height=1)
    pdf = Image(name="p", media_type="application/pdf", size=1, width=0, height=0)
    gone = Image(name="g", media_type="image/png", size=1, width=1, height=1)
    messages = (UserMessage(text=" ", images=(image, gone)), ToolResult(call="c", name="t", text="see", images=(pdf,)))
    first, second = body(ModelRequest(system="", messages=messages, images={"i": png(), "p": b"%PDF-"}), "m")["input"]
    assert [part["type"] for part in first["content"]] == ["input_image", "input_text"]
    assert (
        first["content"][0]["image_url"].startswith("data:image/png;base64,")
        and first["content"][1]["text"] == NOT_SHOWN
    )
    assert [part["type"] for part in second["output"]] == ["input_text", "input_file"]
    assert second["output"][1]["filename"] == "document.pdf"


def test_thoughts_of_another_service_and_without_a_seal_stay_away() -> None:
    sealed = {"type": "reasoning", "encrypted_content": "x"}
    thinking = (
        Thinking(raw=sealed, provider="openai"),
        Thinking(raw=sealed, provider="other"),
        Thinking(text="t", provider="openai"),
    )
    made = body(ModelRequest(system="", messages=(AssistantMessage(thinking=thinking),)), "m")
    assert made["input"] == [sealed]
