"""The scripted model as an outside client sees it: over a socket, in four formats, with faults that are asked for."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from tests.scripts import calls, says
from treadle.agent.providers.script import Cue, ErrorLine, parse
from treadle.errors import ConfigError
from treadle.testing import server
from treadle.testing.server import ModelServer, anthropic, chat, gemini, responses

PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
TWO = says("Done.", when="tool says") + calls(
    "bash", {"command": "ls"}, text="Running.", usage={"input": 3, "output": 2}
)


async def post(server: ModelServer, path: str, **body: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(server.url + path, json=body)


def texts(document: dict[str, Any]) -> str:
    if "choices" in document:
        return str(document["choices"][0]["message"]["content"])
    blocks = document.get("content") or document["output"][0]["content"]
    return str(blocks[0]["text"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "tool", "content": "tool says 2"}]}),
        ("/v1/responses", {"input": [{"type": "function_call_output", "call_id": "1", "output": "tool says 2"}]}),
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "tool says 2"}]}]},
        ),
    ],
)
async def test_a_reply_is_chosen_by_the_newest_tool_result(path: str, body: dict[str, Any]) -> None:
    async with ModelServer(parse(TWO)) as server:
        assert texts((await post(server, path, **body)).json()) == "Done."


@pytest.mark.parametrize("path", PATHS)
async def test_the_stream_is_server_sent_events(path: str) -> None:
    async with ModelServer(parse(TWO), batch=False) as server:
        response = await post(server, path, stream=True)
    assert response.headers["content-type"] == "text/event-stream"
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    assert len(lines) > 4 and all(json.loads(line) for line in lines)


@pytest.mark.parametrize("path", PATHS)
async def test_running_out_of_replies_is_an_error_that_says_so(path: str) -> None:
    async with ModelServer(parse("reply=[{when='never'}]")) as server:
        response = await post(server, path)
    assert response.status_code == 400 and "no reply left" in response.json()["error"]["message"]


async def test_faults_are_spent_in_order_and_leave_the_script_alone() -> None:
    wait = ErrorLine(status=429, message="later", retry_after=2)
    async with ModelServer(parse("reply=[{text='a'}, {text='b'}]"), faults=[wait, None, wait]) as server:
        seen = [await post(server, PATHS[0]) for _ in range(4)]
    assert [response.status_code for response in seen] == [429, 200, 429, 200]
    assert seen[0].headers["retry-after"] == "2"
    assert [texts(seen[1].json()), texts(seen[3].json())] == ["a", "b"]


async def test_models_and_token_counts_are_served_and_other_paths_are_not() -> None:
    async with ModelServer(parse("model='demo'\nreply=[{}]")) as server:
        async with httpx2.AsyncClient(trust_env=False, base_url=server.url) as client:
            listing = (await client.get("/v1/models")).json()
            counted = (await client.post("/v1/messages/count_tokens", json={"messages": ["x" * 400]})).json()
            missing = await client.get("/v2/nothing")
        assert server.asked == [] and len(server.requests) == 3
    assert listing["data"][0]["id"] == "demo"
    assert counted["input_tokens"] > 100
    assert missing.status_code == 404 and "/v2/nothing" in missing.text


async def test_a_body_that_is_not_json_is_refused_and_the_connection_goes_on() -> None:
    async with ModelServer(parse("reply=[{text='x'}]")) as server:
        async with httpx2.AsyncClient(trust_env=False, base_url=server.url) as client:
            bad = await client.post(PATHS[0], content=b"{")
            good = await client.post(PATHS[0], json={})
        assert (bad.status_code, good.status_code, server.connections) == (400, 200, 1)


def asked(path: str, body: bytes = b"{}", head: bytes = b"") -> bytes:
    return b"POST %s HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n%b" % (path.encode(), head, len(body), body)


async def test_gemini_is_asked_by_its_path_and_a_model_that_no_one_names_is_that_of_the_script() -> None:
    at = "/v1beta/models/my-model"
    async with ModelServer(parse("model='demo'\nreply=[{text='a b', times='always'}]")) as server:
        whole = (await post(server, f"{at}:generateContent?key=k", contents=[])).json()
        streamed = await post(server, f"{at}:streamGenerateContent", contents=[])
        named = (await post(server, PATHS[0], model="named")).json()
        unnamed = (await post(server, PATHS[0])).json()
        counted = (await post(server, f"{at}:countTokens", contents=["x" * 398])).json()
        assert [request.path for request in server.asked[:2]] == [
            f"{at}:generateContent",
            f"{at}:streamGenerateContent",
        ]
        first = server.requests[0]
        assert (first.method, first.body, first.headers["content-type"]) == (
            "POST",
            {"contents": []},
            "application/json",
        )
    assert (whole["modelVersion"], whole["responseId"]) == ("my-model", "1") and streamed.text.count("data: ") == 3
    assert (named["model"], unnamed["model"], unnamed["id"]) == ("named", "demo", "chatcmpl-4")
    assert counted == {"totalTokens": 103}


async def test_a_harmless_fault_uses_its_reply_up_and_another_gives_it_again() -> None:
    script = (
        "reply=[{text='a'}, {text='b', fault='html'}, {error={status=418, message='tea', retry_after=0.5}}, {text='c'}]"
    )
    async with ModelServer(parse(script), faults=["cut", "split"]) as server:
        with pytest.raises(httpx2.RemoteProtocolError):
            await post(server, PATHS[0], stream=True)
        assert '"a"' in (await post(server, PATHS[0], stream=True)).text
        assert "hotel" in (await post(server, PATHS[0])).text
        refused = await post(server, PATHS[0])
        assert (refused.status_code, refused.headers["retry-after"]) == (418, "0.5") and "tea" in refused.text
        assert texts((await post(server, PATHS[0])).json()) == "c"
        assert server.connections == 5
        await asyncio.wait_for(server.all_gone(), 60)


def test_it_runs_as_a_program_and_ends_on_a_signal(tmp_path: Path) -> None:
    script = tmp_path / "s.toml"
    script.write_text("reply=[{text='hello from outside'}]")
    command = [sys.executable, "-m", "treadle.testing.server", str(script), "--fault", "503"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stderr is not None
        url = program.stdout.readline().split()[-1]
        with httpx2.Client(trust_env=False) as client:
            assert client.post(url + "/chat/completions", json={}).status_code == 503
            assert "hello from outside" in client.post(url + "/chat/completions", json={}).text
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0 and program.stderr.read() == ""


@pytest.mark.parametrize("text", ["sneeze", "200", "429:soon", ""])
def test_an_unknown_fault_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(ConfigError, match="one of: ok, 429:SECONDS, 500, cut,"):
        server.parse(text)


EVENTS = [b"data: 1\n\n", b"data: 2\n\n", "data: \u00e9\u00e8\n\n".encode(), b"data: 4\n\n"]
BODY, HALF, REST = b"".join(EVENTS), b"".join(EVENTS[:2]), b"".join(EVENTS[2:])


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
