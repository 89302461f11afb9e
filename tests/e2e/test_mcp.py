"""The official MCP client, with the installed `treadle mcp` as its server."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp
import mcp_types as types

from tests.installed import TREADLE
from tests.scripts import calls, says

WRITE = calls(
    "write_file",
    {"file_path": "made.txt", "content": "hello\n"},
    text="I will write.",
    usage={"input": 30, "output": 5},
) + says("It is done.", times="always", usage={"input": 3, "output": 2})


@asynccontextmanager
async def client(work: Path, script: str, *more: str, **callbacks: Any) -> AsyncIterator[mcp.ClientSession]:
    (work / "model.toml").write_text(script)
    arguments = ["mcp", "--model", f"scripted:{work / 'model.toml'}", *more]
    server = mcp.StdioServerParameters(command=TREADLE, args=arguments, cwd=work, env=dict(os.environ))
    async with mcp.stdio_client(server) as (read, write), mcp.ClientSession(read, write, **callbacks) as session:
        greeting = await asyncio.wait_for(session.initialize(), 60)
        assert greeting.server_info.name == "treadle"
        yield session


async def call(session: mcp.ClientSession, name: str, **arguments: Any) -> Any:
    result = await asyncio.wait_for(session.call_tool(name, arguments), 60)
    assert result.structured_content is not None, result
    return result.structured_content


async def test_a_run_gives_the_answer_the_files_and_what_it_used_and_tells_progress(tmp_path: Path) -> None:
    told: list[str] = []

    async def progress(amount: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with client(tmp_path, WRITE, "--permission-mode", "auto-edit") as session:
        result = await asyncio.wait_for(session.call_tool("run", {"prompt": "write"}, progress_callback=progress), 60)
    said = result.structured_content
    assert said is not None and not result.is_error
    assert (said["status"], said["text"]) == ("completed", "It is done.")
    assert said["usage"]["input_tokens"] == 33
    assert said["files"] == [{"path": str(tmp_path / "made.txt"), "change": "added"}]
    assert isinstance(result.content[0], types.TextContent) and result.content[0].text.startswith("It is done.")
    assert told[:2] == ["I will write.", f"write_file: {tmp_path / 'made.txt'}"]
    assert (tmp_path / "made.txt").read_text() == "hello\n"


async def test_a_client_that_can_ask_its_person_is_asked(tmp_path: Path) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "allow"})

    async with client(tmp_path, WRITE, elicitation_callback=elicit) as session:
        said = await call(session, "run", prompt="write")
    assert said["status"] == "completed" and (tmp_path / "made.txt").exists()
    assert "write_file" in asked[0] and str(tmp_path / "made.txt") in asked[0]
