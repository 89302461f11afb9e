"""The four formats side by side: what they ask, and that their streams and documents say the same."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from treadle.agent.providers.script import Cue, parse
from treadle.testing.formats import Play, anthropic, chat, gemini, halves, responses, text_of

EVERY = [chat, responses, anthropic, gemini]
FULL = parse("reply=[{text='a b', thinking='c d', usage={input=1}, call=[{name='x', arguments='{bad'}, {name='y'}]}]")


def play(toml: str | None = None) -> Play:
    return Play(reply=(parse(toml) if toml else FULL).reply[0], model="\ufffd?", turn=1, id="1")


@pytest.mark.parametrize("form", EVERY)
def test_every_event_is_a_block_of_json(form: Any) -> None:
    for event in form.events(play()):
        assert event.endswith(b"\n\n") and event.count(b"\n\n") == 1
        data = event.split(b"data: ", 1)[1].strip()
        assert data == b"[DONE]" or isinstance(json.loads(data), dict)


@pytest.mark.parametrize("form", EVERY)
def test_the_document_is_json_and_names_every_call(form: Any) -> None:
    document = json.dumps(form.whole(play()))
    assert all(name in document for name in ("call_1_0", "call_1_1", "c d", "a b"))


def data(form: Any, toml: str) -> list[Any]:
    """The events of a stream without their frames; where they have names, each is that of what it holds."""
    found = []
    for event in form.events(play(toml)):
        head, _, text = event.decode().strip().rpartition("data: ")
        found.append(text if text == "[DONE]" else json.loads(text))
        assert head == (f"event: {found[-1]['type']}\n" if form in (anthropic, responses) else "")
    return found


USAGE = "usage={input=10, output=9, cache_read=4, cache_write=2, reasoning=3}, cost=0.5"
TEXT = f"reply=[{{text='a b', repeat=2, thinking='c d', {USAGE}}}]"
CALLS = "reply=[{call=[{name='s::x', arguments='{bad'}, {name='y', arguments={a=1}, id='own'}]}]"


def test_chat_is_streamed_in_pieces_and_told_whole() -> None:
    def chunk(delta: Any, finish: Any = None) -> Any:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    def tool(index: int, **function: Any) -> Any:
        known = {name: function.pop(name) for name in ("id", "type") if name in function}
        return chunk({"tool_calls": [{"index": index, **known, "function": function}]})

    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "\ufffd?"}
    usage = {
        **{"prompt_tokens": 16, "completion_tokens": 9, "total_tokens": 25, "cost": 0.5},
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    first, done = chunk({"role": "assistant", "content": ""}), "[DONE]"
    said = [
        chunk({"reasoning": "c "}),
        chunk({"reasoning": "d"}),
        *(chunk({"content": text}) for text in ("a ", "ba ", "b")),
    ]
    assert data(chat, TEXT) == [first, *said, chunk({}, "stop"), {**head, "choices": [], "usage": usage}, done]
    calls = [
        *(
            tool(0, id="call_1_0", type="function", name="s::x", arguments=""),
            tool(0, arguments="{b"),
            tool(0, arguments="ad"),
        ),
        *(
            tool(1, id="own", type="function", name="y", arguments=""),
            tool(1, arguments='{"a"'),
            tool(1, arguments=":1}"),
        ),
    ]
    assert data(chat, CALLS) == [first, *calls, chunk({}, "tool_calls"), done]
    message = {"role": "assistant", "content": "a ba b", "reasoning": "c d"}
    whole = {**head, "object": "chat.completion", "usage": usage}
    assert chat.whole(play(TEXT)) == {**whole, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    told = chat.whole(play(CALLS))["choices"][0]["message"]
    assert told["content"] is None and "reasoning" not in told
    assert [call["function"] for call in told["tool_calls"]] == [
        {"name": "s::x", "arguments": "{bad"},
        {"name": "y", "arguments": '{"a":1}'},
    ]
    assert "cost" not in chat.whole(play(CALLS))["usage"] and "tool_calls" not in message
    assert data(chat, "reply=[{text='x', cost=0.5}]")[-2]["usage"]["cost"] == 0.5
    assert "usage" in data(chat, "reply=[{text='x', usage={input=1}}]")[-2]


def test_responses_are_streamed_item_by_item_and_told_whole() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "c d"}]}
    reasoning |= {"encrypted_content": "sealed", "status": "completed"}
    part = {"type": "output_text", "text": "a ba b", "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part], "status": "completed"}
    usage = {
        **{"input_tokens": 16, "output_tokens": 9, "total_tokens": 25, "cost": 0.5},
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    whole = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed", "model": "\ufffd?"}
    whole |= {"output": [reasoning, message], "error": None, "incomplete_details": None, "usage": usage}
    assert responses.whole(play(TEXT)) == whole
    events = data(responses, TEXT)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    assert events[0] == {"type": "response.created", "response": begun}
    assert events[-1] == {"type": "response.completed", "response": whole}
    added = {**reasoning, "status": "in_progress", "summary": []}
    at = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    assert events[1] == {"type": "response.output_item.added", "output_index": 0, "item": added}
    about, summary = "response.reasoning_summary_", reasoning["summary"][0]
    assert events[2:8] == [
        {"type": f"{about}part.added", **at, "part": {"type": "summary_text", "text": ""}},
        {"type": f"{about}text.delta", **at, "delta": "c "},
        {"type": f"{about}text.delta", **at, "delta": "d"},
        {"type": f"{about}text.done", **at, "text": "c d"},
        {"type": f"{about}part.done", **at, "part": summary},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
    ]
    at = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    assert events[8]["item"] == {**message, "status": "in_progress", "content": []}
    assert events[9] == {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    assert [event["delta"] for event in events[10:13]] == ["a ", "ba ", "b"]
    assert events[10]["type"] == "response.output_text.delta"
    assert events[13] == {"type": "response.output_text.done", **at, "text": "a ba b"}
    assert events[14] == {"type": "response.content_part.done", **at, "part": part}
    refused = "reply=[{text='no no', finish='refusal'}]"
    assert responses.whole(play(refused))["output"][0]["content"] == [{"type": "refusal", "refusal": "no no"}]
    kinds = [event["type"].removeprefix("response.") for event in data(responses, refused)]
    assert kinds[2:7] == ["content_part.added", "refusal.delta", "refusal.delta", "refusal.done", "content_part.done"]
    assert data(responses, refused)[5]["refusal"] == "no no" and data(responses, refused)[2]["part"]["refusal"] == ""


def test_calls_in_responses_have_the_space_of_their_server() -> None:
    one = {"id": "fc_1_0", "type": "function_call", "call_id": "call_1_0", "name": "x", "arguments": "{bad"}
    one |= {"namespace": "s", "status": "completed"}
    other = {"id": "fc_1_1", "type": "function_call", "call_id": "own", "name": "y", "arguments": '{"a":1}'}
    other |= {"status": "completed"}
    whole = responses.whole(play(CALLS))
    assert whole["output"] == [one, other] and whole["usage"] is None and whole["status"] == "completed"
    at, about = {"item_id": "fc_1_0", "output_index": 0}, "response.function_call_arguments"
    assert data(responses, CALLS)[1:6] == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**one, "arguments": "", "status": "in_progress"},
        },
        {"type": f"{about}.delta", **at, "delta": "{b"},
        {"type": f"{about}.delta", **at, "delta": "ad"},
        {"type": f"{about}.done", **at, "arguments": "{bad"},
        {"type": "response.output_item.done", "output_index": 0, "item": one},
    ]


def test_messages_are_streamed_block_by_block_and_told_whole() -> None:
    def block(index: int, empty: Any, kind: str, field: str, texts: list[str], *last: Any) -> list[Any]:
        deltas = [{"type": kind, field: text} for text in texts]
        return [
            {"type": "content_block_start", "index": index, "content_block": empty},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in (*deltas, *last)),
            {"type": "content_block_stop", "index": index},
        ]

    usage = {"input_tokens": 10, "output_tokens": 9, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
    usage |= {"cost": 0.5}  # type: ignore[dict-item]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "\ufffd?", "stop_sequence": None}
    begun = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    signed = {"type": "signature_delta", "signature": "signed-1"}
    thinking = block(
        0, {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", ["c ", "d"], signed
    )
    assert data(anthropic, TEXT) == [
        {"type": "message_start", "message": begun},
        {"type": "ping"},
        *thinking,
        *block(1, {"type": "text", "text": ""}, "text_delta", "text", ["a ", "ba ", "b"]),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    content = [{"type": "thinking", "thinking": "c d", "signature": "signed-1"}, {"type": "text", "text": "a ba b"}]
    assert anthropic.whole(play(TEXT)) == {**head, "content": content, "stop_reason": "end_turn", "usage": usage}
    one = {"type": "tool_use", "id": "call_1_0", "name": "s::x", "input": {}}
    other = {"type": "tool_use", "id": "own", "name": "y", "input": {}}
    pieces = [["", "{b", "ad"], ["", '{"a"', ":1}"]]
    events = data(anthropic, CALLS)
    assert events[2:-2] == [
        *block(0, one, "input_json_delta", "partial_json", pieces[0]),
        *block(1, other, "input_json_delta", "partial_json", pieces[1]),
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use" and "cost" not in events[-2]["usage"]
    assert anthropic.whole(play(CALLS))["content"] == [one, {**other, "input": {"a": 1}}]


def test_contents_are_streamed_part_by_part_and_told_whole() -> None:
    def reply(*parts: Any, **more: Any) -> Any:
        candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}, **more}
        return {"responseId": "1", "modelVersion": "\ufffd?", "candidates": [candidate]}

    usage = {"promptTokenCount": 16, "cachedContentTokenCount": 4, "candidatesTokenCount": 6, "thoughtsTokenCount": 3}
    usage |= {"totalTokenCount": 25}
    thoughts = [reply({"text": text, "thought": True}) for text in ("c ", "d")]
    texts = [reply({"text": text}) for text in ("a ", "ba ", "b")]
    last = {**reply(finishReason="STOP"), "usageMetadata": usage}
    assert data(gemini, TEXT) == [*thoughts, *texts, last]
    parts = [{"text": "c d", "thought": True}, {"text": "a ba b"}]
    assert gemini.whole(play(TEXT)) == {**reply(*parts, finishReason="STOP"), "usageMetadata": usage}
    one = {"functionCall": {"id": "call_1_0", "name": "s::x", "args": {"malformed": "{bad"}}}
    other = {"functionCall": {"id": "own", "name": "y", "args": {"a": 1}}}
    assert data(gemini, CALLS)[:-1] == [reply(one), reply(other)]
    assert gemini.whole(play(CALLS))["candidates"][0]["content"]["parts"] == [one, other]


@pytest.mark.parametrize(
    ("finish", "reasons"),
    [
        ("stop", ("stop", "completed", "end_turn", "STOP")),
        ("tool_calls", ("tool_calls", "completed", "tool_use", "STOP")),
        ("length", ("length", "max_output_tokens", "max_tokens", "MAX_TOKENS")),
        ("refusal", ("content_filter", "completed", "refusal", "SAFETY")),
        ("other", ("other", "other", "pause_turn", "OTHER")),
    ],
)
def test_every_reason_for_the_end_is_said_in_both_ways(finish: str, reasons: tuple[str, ...]) -> None:
    toml = f"reply=[{{text='x', finish='{finish}'}}]"
    one = play(toml)
    told = responses.whole(one)
    assert reasons == (
        chat.whole(one)["choices"][0]["finish_reason"],
        (told["incomplete_details"] or {"reason": told["status"]})["reason"],
        anthropic.whole(one)["stop_reason"],
        gemini.whole(one)["candidates"][0]["finishReason"],
    )
    assert (told["status"] == "incomplete") == (finish in ("length", "other"))
    last = data(responses, toml)[-1]
    assert last["type"] == f"response.{told['status']}" and last["response"] == told
    assert data(chat, toml)[-2]["choices"][0]["finish_reason"] == reasons[0]
    assert data(anthropic, toml)[-2]["delta"]["stop_reason"] == reasons[2]
    assert data(gemini, toml)[-1]["candidates"][0]["finishReason"] == reasons[3]


def test_a_failure_has_the_name_that_each_service_gives_it() -> None:
    for form in (chat, responses):
        assert form.failure(429, "no")["error"]["message"] == "no"
    assert anthropic.failure(429, "no") == {"type": "error", "error": {"type": "rate_limit_error", "message": "no"}}
    assert anthropic.failure(500, "no")["error"]["type"] == "api_error"
    assert gemini.failure(403, "no") == {"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}}
    assert gemini.failure(500, "no")["error"]["status"] == "INTERNAL"


def test_what_is_asked_is_found_in_every_format() -> None:
    expected = Cue(last="newest", turn=2, system="sys")
    turns = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "hm"}]
    newest = {"role": "user", "content": [{"type": "text", "text": "newest"}]}
    assert chat.asked({"messages": [{"role": "system", "content": "sys"}, *turns, newest]}) == expected
    assert anthropic.asked({"system": [{"type": "text", "text": "sys"}], "messages": [*turns, newest]}) == expected
    said = [{"type": "reasoning"}, {"role": "assistant", "content": "hm"}, {"type": "function_call"}]
    assert responses.asked({"instructions": "sys", "input": [turns[0], *said, newest]}) == expected
    result = {"type": "function_call_output", "output": "newest"}
    told = {"role": "developer", "content": "sys"}
    assert responses.asked({"instructions": "", "input": [told, turns[0], said[0], result]}) == replace(
        expected, system="\nsys"
    )
    assert responses.asked({"input": "newest"}) == Cue(last="newest", turn=1)
    contents = [{"role": "user", "parts": [{"text": "first"}]}, {"role": "model", "parts": [{"text": "hm"}]}]
    got = {"functionResponse": {"response": {"a": 1}}}
    asked = [*contents, {"role": "user", "parts": [{"text": "newest"}]}]
    for name in ("systemInstruction", "system_instruction"):
        assert gemini.asked({"contents": asked, name: {"parts": [{"text": "sys"}]}}) == expected
    answered = [*contents, {"parts": [got, 5, {"functionResponse": 5, "text": "b"}, {"inlineData": {}}]}]
    assert gemini.asked({"contents": answered, "systemInstruction": "sys"}) == Cue(last='{"a":1}\nb', turn=2)


def test_in_chat_all_since_the_last_reply_is_new_and_instructions_are_no_part_of_it() -> None:
    said = [{"role": "user", "content": "old"}, {"role": "assistant"}, {"role": "tool", "content": "a"}]
    more = [
        {"role": "developer", "content": "dev"},
        {"role": "user", "content": "b"},
        {"role": "system", "content": "s"},
    ]
    assert chat.asked({"messages": [*said, *more]}) == Cue(last="a\nb", turn=2, system="dev\ns")
    assert anthropic.asked({"messages": said}) == Cue(last="old", turn=2)


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.parametrize("body", [{}, {"messages": None, "input": None}, {"messages": [{}, 5], "input": ["text"]}])
def test_a_request_with_little_in_it_is_understood(form: Any, body: dict[str, Any]) -> None:
    assert form.asked(body).turn == 1


def test_arguments_are_streamed_in_at_least_two_pieces() -> None:
    assert halves('{"a":1}') == ['{"a"', ":1}"] and "".join(halves("x" * 100)) == "x" * 100
    assert halves("") == [] and halves("x") == ["x"]
    assert [len(piece) for piece in halves("x" * 63)] == [32, 31] and len(halves("x" * 65)) == 3


def test_text_is_found_in_parts_of_parts() -> None:
    assert text_of([{"type": "tool_result", "content": [{"type": "text", "text": "a"}]}, {"text": "b"}, 5]) == "a\nb"
    assert (text_of("a"), text_of(None), text_of([{"text": ""}, {"content": "c"}, {}])) == ("a", "", "c")
