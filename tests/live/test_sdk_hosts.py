"""Claude's Python SDK drives other agents through us: its hooks, its own tools and its instructions reach them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

from tests.drivers.programs import PROGRAMS, environment
from tests.drivers.scenarios import DONE, HELLO, USED, script
from tests.installed import TREADLE
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.testing.server import ModelServer


class Host:
    """A program that uses the SDK, and takes us for Claude Code."""

    def __init__(self, agent: str, folder: Path, url: str) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.env = environment(agent, self.home, url)
        self.wrapper = folder / "as-claude"
        self.wrapper.write_text(f'#!/bin/sh\nexec {TREADLE} --agent {agent} "$@"\n')
        self.wrapper.chmod(0o755)

    async def ask(self, prompt: str, **options: Any) -> Any:
        given = sdk.ClaudeAgentOptions(cli_path=str(self.wrapper), cwd=str(self.work), env=self.env, **options)
        async with asyncio.timeout(120), sdk.ClaudeSDKClient(options=given) as client:
            await client.query(prompt)
            async for message in client.receive_response():
                if isinstance(message, sdk.ResultMessage):
                    return message


def calling(name: str, arguments: dict[str, Any]) -> Script:
    call = CallLine(name=name, arguments=arguments, id="call_1")
    return Script(
        reply=(
            ScriptedReply(when="begin", text="Let me see.", call=(call,), usage=USED),
            ScriptedReply(text=DONE, usage=USED, times="always"),
        )
    )


async def test_a_hook_of_the_host_keeps_claude_from_a_tool(tmp_path: Path) -> None:
    seen = []

    async def before(told: Any, call: Any, context: Any) -> Any:
        seen.append((told["tool_name"], told["tool_input"]["command"]))
        specific = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "not today",
        }
        return {"hookSpecificOutput": specific}

    async with ModelServer(calling("Bash", {"command": "touch asked.txt", "description": "d"})) as server:
        host = Host("claude", tmp_path, server.url)
        hooks: Any = {"PreToolUse": [sdk.HookMatcher(matcher="Bash", hooks=[before])]}
        result = await host.ask("begin", hooks=hooks, permission_mode="bypassPermissions")
    assert result.result == DONE and seen == [("Bash", "touch asked.txt")]
    assert not (host.work / "asked.txt").exists() and "not today" in json.dumps(server.asked[-1].body)


async def test_hooks_of_the_host_are_refused_where_an_agent_cannot_be_held_to_them(tmp_path: Path) -> None:
    async def before(told: Any, call: Any, context: Any) -> Any:
        return {}

    async with ModelServer(script(PROGRAMS["codex"].tools)) as server:
        host = Host("codex", tmp_path, server.url)
        with pytest.raises(Exception, match="cannot run hooks of the host"):
            await host.ask("[[hello]]", hooks={"PreToolUse": [sdk.HookMatcher(hooks=[before])]})


async def test_a_tool_in_the_hosts_process_is_used_by_claude(tmp_path: Path) -> None:
    @sdk.tool("weigh", "Weighs a thing.", {"thing": str})
    async def weigh(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"{args['thing']} weighs 17 grams"}]}

    scales = sdk.create_sdk_mcp_server("scales", tools=[weigh])
    async with ModelServer(calling("mcp__scales__weigh", {"thing": "the pen"})) as server:
        host = Host("claude", tmp_path, server.url)
        options: dict[str, Any] = {"mcp_servers": {"scales": scales}, "allowed_tools": ["mcp__scales__weigh"]}
        result = await host.ask("begin", **options)
    assert result.result == DONE and "the pen weighs 17 grams" in json.dumps(server.asked[-1].body)


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
async def test_instructions_of_the_host_reach_the_model(agent: str, tmp_path: Path) -> None:
    async with ModelServer(script(PROGRAMS[agent].tools), batch=False) as server:
        host = Host(agent, tmp_path, server.url)
        result = await host.ask("[[hello]]", system_prompt="You are a violet parrot.")
    assert result.result == HELLO
    assert any("You are a violet parrot." in json.dumps(request.body) for request in server.asked)
