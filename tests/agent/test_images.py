"""Images that a model is shown: judged by what reaches the service over HTTP."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.pixels import gif, jpeg, png, webp
from tests.agent.tools.workspace import Workspace
from tests.stand_ins.sessions import ScriptedSession
from treadle.agent.messages import Image, ToolResult, UserMessage
from treadle.agent.native import NativeAgent
from treadle.agent.providers.script import ErrorLine, Fault, parse
from treadle.agent.session import NativeSession
from treadle.agent.tools import images
from treadle.agent.tools.images import LARGEST, MOST, NOT_SHOWN, chosen, look
from treadle.errors import ToolError, Unsupported
from treadle.events import AnyEvent, ToolEnded, TurnEnded, Warned
from treadle.session import SessionSpec
from treadle.sessions.session import BaseSession
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer

READ = '[[reply]]\n[[reply.call]]\nname = "read_file"\narguments = { file_path = "a.png" }\n'
SAY = '[[reply]]\ntimes = "always"\ntext = "seen"\n'
WIRES = ["anthropic", "openai", "chat"]


@asynccontextmanager
async def conversing(
    work: Path, script: str, wire: str = "anthropic", *, faults: tuple[Fault | ErrorLine | None, ...] = (), **more: Any
) -> AsyncIterator[tuple[NativeSession, ModelServer]]:
    async with ModelServer(parse(script), faults=faults) as server:
        env = {"TREADLE_BASE_URL": f"{server.url}/v1", "TREADLE_API_KEY": "k"}
        spec = SessionSpec.of(**{"cwd": str(work), "model": f"{wire}:m", "env": env, **more})
        session = await NativeAgent(env).open(spec)
        try:
            yield session, server
        finally:
            await session.close()


async def turn(session: BaseSession, text: str = "go", **more: Any) -> list[AnyEvent]:
    return [event async for event in run_turn(session, text, **more)]


def sent(server: ModelServer, request: int = -1) -> list[tuple[str, bytes]]:
    """(media type, bytes) of the images in a request, wherever its format has them."""
    found: list[tuple[str, bytes]] = []

    def search(node: Any) -> None:
        if isinstance(node, list):
            for item in node:
                search(item)
        elif isinstance(node, dict):
            if node.get("type") == "image":
                source = node["source"]
                found.append((source["media_type"], base64.b64decode(source["data"])))
            elif node.get("type") in ("image_url", "input_image"):
                url = node["image_url"]["url"] if isinstance(node["image_url"], dict) else node["image_url"]
                kind, _, data = url.removeprefix("data:").partition(";base64,")
                found.append((kind, base64.b64decode(data)))
            else:
                search(list(node.values()))

    search(server.asked[request].body)
    return found


def words(server: ModelServer) -> str:
    return json.dumps(server.asked[-1].body)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_image_that_a_tool_read_reaches_the_model_in_its_services_form(tmp_path: Path, wire: str) -> None:
    (tmp_path / "a.png").write_bytes(png())
    async with conversing(tmp_path, READ + SAY, wire) as (session, server):
        events = await turn(session)
        [ended] = [event for event in events if isinstance(event, ToolEnded)]
        assert sent(server, 0) == [] and sent(server) == [("image/png", png())]
        assert "3 x 2 pixels" in ended.result and Path(ended.images[0].path).read_bytes() == png()
        history = Path(session.transcript.directory, "history.jsonl").read_bytes()
        assert b"a.png" in history and base64.b64encode(png())[:40] not in history
        await turn(session, "again")
        assert sent(server) == [("image/png", png())]


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_model_that_takes_no_images_is_told_so_and_the_turn_goes_on(tmp_path: Path, status: int) -> None:
    (tmp_path / "a.png").write_bytes(png())
    refusal = ErrorLine(status=status, message="image input is not supported")
    async with conversing(tmp_path, READ + SAY, "chat", faults=(None, refusal)) as (session, server):
        events = await turn(session)
        ended = events[-1]
        assert isinstance(ended, TurnEnded) and ended.text == "seen"
        assert [event.code for event in events if isinstance(event, Warned)] == ["image_refused"]
        assert len(server.asked) == 3 and sent(server) == [] and NOT_SHOWN in words(server)


async def test_an_agent_that_has_no_eyes_refuses_the_prompt() -> None:
    session = ScriptedSession(SessionSpec(cwd="/"), [], cannot=("images",))
    with pytest.raises(Unsupported, match="scripted accepts no images"):
        await turn(session, "look", images=(png(), png()))
    await session.close()


async def test_what_is_no_image_fails_the_turn_and_the_model_is_not_asked(tmp_path: Path) -> None:
    async with conversing(tmp_path, SAY) as (session, server):
        ended = (await turn(session, "look", images=(png(), b"no image")))[-1]
        assert isinstance(ended, TurnEnded) and ended.outcome == "failed" and server.asked == []
        assert ended.error is not None and "image 2 is not a PNG" in ended.error.message
        assert (await turn(session, "and now"))[-1].text == "seen"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(padding=LARGEST), "too large"),
        (png(9000, 1), "9000 x 1 pixels"),
        (png(0, 1), "0 x 1 pixels"),
        (png()[:40], "cut off"),
        (jpeg()[:-2], "cut off"),
        (jpeg()[:12], "cut off"),
        (gif()[:-1], "cut off"),
        (webp()[:-1], "cut off"),
        (b"BM" + b"\0" * 40, "not a PNG, JPEG, GIF or WebP"),
    ],
)
def test_what_a_service_would_choke_on_is_not_shown(data: bytes, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        look(data, "x.png")


@given(
    st.sampled_from([png(), jpeg(), gif(), webp(), webp(kind=b"VP8L"), b""]), st.binary(max_size=40), st.integers(0, 60)
)
def test_whatever_the_bytes_are_there_is_an_answer(image: bytes, more: bytes, cut: int) -> None:
    try:
        kind, width, height = look(image[:cut] + more, "x")
    except ToolError:
        return
    assert kind.startswith("image/") and width and height


def named(number: int, size: int = 1) -> ToolResult:
    image = Image(name=str(number), media_type="image/png", size=size, width=4000, height=4000)
    return ToolResult(call="c", name="t", text="", images=(image,))


def test_a_request_has_the_newest_images_and_old_ones_go_several_at_a_time() -> None:
    for count, first in ((MOST, 0), (MOST + 1, 10), (MOST + 10, 10), (MOST + 11, 20)):
        assert [image.name for image in chosen([named(n) for n in range(count)])] == [
            str(n) for n in range(first, count)
        ]
    large = [named(number, images.MOST_BYTES // 2) for number in range(3)]
    assert [image.name for image in chosen([UserMessage(text="x"), *large])] == ["1", "2"]


def test_no_more_are_shown_at_a_time_than_a_request_may_have(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, keep_image=lambda data, suffix: "kept")
    for _ in range(MOST):
        images.show(png(), "x", workspace.context)
    with pytest.raises(ToolError, match=f"over the limit of {MOST} images at a time"):
        images.show(png(), "x", workspace.context)
