"""The service as an outside client sees it, over a socket and with a plain HTTP library."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.scripts import calls, says
from treadle.agent.providers.script import ErrorLine, parse
from treadle.testing.server import ModelServer

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


@pytest.mark.parametrize("path", PATHS)
async def test_without_stream_the_reply_is_one_document(path: str) -> None:
    async with ModelServer(parse(TWO)) as server:
        document = (await post(server, path, model="m", messages=[], input="go")).json()
    assert texts(document) == "Running." and document["model"] == "m"
    assert "bash" in json.dumps(document)


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


async def spoken(server: ModelServer, *requests: bytes) -> bytes:
    """All that comes back on one connection, which is closed after the requests were answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    for request in requests:
        writer.write(request)
    writer.write_eof()
    async with asyncio.timeout(60):
        answers = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answers


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


async def test_events_come_in_one_chunk_or_each_in_its_own() -> None:
    script = parse("reply=[{text='a b c', times='always'}, ]")
    request = asked(PATHS[0], b'{"stream": true}')
    for batch, chunks in ((True, 1), (False, 6)):
        async with ModelServer(script, batch=batch) as server:
            answer = await spoken(server, request)
        assert answer.count(b"\r\n\r\n") == 2 and answer.endswith(b"\r\n0\r\n\r\n")
        assert len(re.findall(rb"\r\n[0-9a-f]+\r\ndata", answer)) == chunks
    async with ModelServer(parse("reply=[{text='a b', pace=0.001, delay=0.001}]")) as server:
        assert len(re.findall(rb"\r\n[0-9a-f]+\r\ndata", await spoken(server, request))) == 5, "each at its own time"


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


async def test_a_request_that_waits_to_be_told_to_go_on_or_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(parse("reply=[{text='a', times='always'}]")) as server:
        answers = await spoken(server, asked(PATHS[0], head=b"expect: 100-continue\r\n"), asked("/nowhere"))
        assert b'"content":"a"' in answers and b"404 Error" in answers and b"200 OK" in answers
        monkeypatch.setattr("treadle.testing.server.LARGEST_REQUEST", 10)
        assert b"200 OK" in await spoken(server, asked(PATHS[0], b'{"a": "b"}'))
        assert await spoken(server, asked(PATHS[0], b'{"a": "bc"}')) == b""
        assert server.requests[1].body == {} and len(server.requests) == 3


async def test_it_can_be_served_at_a_socket_and_says_when_requests_have_come(tmp_path: Path) -> None:
    async with ModelServer(parse("reply=[{text='a'}]"), socket=str(tmp_path / "s")) as server:
        waiting = asyncio.create_task(server.arrived(1))
        await asyncio.sleep(0)
        assert not waiting.done()
        transport = httpx2.AsyncHTTPTransport(uds=str(tmp_path / "s"))
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            await client.get("http://x/v1/models")
            assert not waiting.done(), "a listing is no request for a reply"
            assert (await client.post(f"http://x{PATHS[0]}", json={})).status_code == 200
        await asyncio.wait_for(waiting, 60)


async def test_what_is_not_http_is_dropped() -> None:
    async with ModelServer(parse("reply=[{}]")) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_pipelined_requests_and_chunked_bodies_are_read() -> None:
    async with ModelServer(parse("reply=[{text='a'},{text='b'}]")) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
        chunked = head + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        writer.write(chunked + head + b"connection: close\r\ncontent-length: 2\r\n\r\n{}")
        await server.arrived(2)
        writer.write_eof()
        async with asyncio.timeout(60):
            answers = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert b'"content":"a"' in answers and b'"content":"b"' in answers


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


@pytest.mark.parametrize("arguments", [["/nowhere.toml"], ["FILE", "--fault", "sneeze"]])
def test_a_wrong_argument_is_one_line(arguments: list[str], tmp_path: Path) -> None:
    script = tmp_path / "s.toml"
    script.write_text("reply=[{}]")
    given = [str(script) if argument == "FILE" else argument for argument in arguments]
    command = [sys.executable, "-m", "treadle.testing.server", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr.count("\n") == 1
