"""Scenarios of options and hooks of the Python SDK that need more than one prompt or a server."""

import json
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk

from tests.differential.driving import DONE, Seen, calling, drive
from tests.differential.scenarios import (
    AGENT,
    ANY,
    BASH,
    HELPER,
    JUDGE,
    PROJECT,
    SCENARIOS,
    Facts,
    bash,
    ended,
    hooking,
    ran,
    simple,
)

simple("option allowed_tools", bash("touch made"), ran, allowed_tools=["Bash"])
MCP = {".mcp.json": json.dumps({"mcpServers": {"dead": {"command": "/bin/false"}}})}
simple(
    "option strict_mcp_config",
    DONE,
    lambda s: {"servers": [one["name"] for one in s.init.get("mcp_servers", [])], **ended(s)},
    files=MCP,
    strict_mcp_config=True,
    **PROJECT,
)
simple(
    "option include_hook_events",
    bash("ls"),
    lambda s: {"lines": sorted({m.subtype for m in s.of(sdk.SystemMessage) if m.subtype.startswith("hook_")})},
    include_hook_events=True,
    settings=json.dumps({"hooks": JUDGE}),
)
simple(
    "option forward_subagent_text",
    AGENT,
    lambda s: {"texts": _forwarded(s)},
    agents=HELPER,
    forward_subagent_text=True,
    **ANY,
)
simple(
    "option skills",
    DONE,
    lambda s: {
        "dig": "dig" in s.init.get("skills", []),
        "swim": "swim" in s.init.get("skills", []),
        "offered": [s.reached("digs holes"), s.reached("crosses lakes")],
    },
    files={
        ".claude/skills/dig/SKILL.md": "---\nname: dig\ndescription: digs holes\n---\nDig.",
        ".claude/skills/swim/SKILL.md": "---\nname: swim\ndescription: crosses lakes\n---\nSwim.",
    },
    skills=["dig"],
    **PROJECT,
)
simple(
    "option sandbox",
    bash("touch made"),
    lambda s: {**ran(s), "made": (s.work / "made").exists()},
    sandbox={"enabled": True, "autoAllowBashIfSandboxed": True},
)
simple(
    "option output_format",
    calling("StructuredOutput", answer="yes") + '[[reply]]\ntimes = "always"\ntext = \'{"answer": "yes"}\'\n',
    lambda s: {"structured": s.result.structured_output, "subtype": s.result.subtype},
    output_format={
        "type": "json_schema",
        "schema": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    },
)
simple("option task_budget", DONE, ended, task_budget={"total": 50_000})


def _forwarded(seen: Seen) -> bool:
    return any(
        message.parent_tool_use_id and any(isinstance(block, sdk.TextBlock) for block in message.content)
        for message in seen.of(sdk.AssistantMessage)
    )


async def _prompt_tool(program: str, home: Path) -> Facts:
    asked: list[Any] = []

    @sdk.tool("ask", "Decides", {"tool_name": str, "input": dict, "tool_use_id": str})
    async def ask(given: dict[str, Any]) -> dict[str, Any]:
        asked.append(given)
        answer = json.dumps({"behavior": "allow", "updatedInput": {**given["input"], "command": "touch other"}})
        return {"content": [{"type": "text", "text": answer}]}

    seen = await drive(
        program,
        home,
        bash("touch made"),
        "go",
        mcp_servers={"guard": sdk.create_sdk_mcp_server("guard", tools=[ask])},
        permission_prompt_tool_name="mcp__guard__ask",
    )
    made = sorted(path.name for path in seen.work.iterdir() if not path.name.startswith("."))
    return {"asked": [one["tool_name"] for one in asked], "made": made, **ended(seen), "_said": seen.said}


SCENARIOS["option permission_prompt_tool_name"] = _prompt_tool


async def _resumed_at(program: str, home: Path) -> Facts:
    first = await drive(program, home / "a", DONE, "remember the heron", "remember the owl")
    replies = [message.uuid for message in first.of(sdk.AssistantMessage)]
    env = {
        "HOME": str(home / "a"),
        "CLAUDE_CONFIG_DIR": str(home / "a" / "claude"),
        "TREADLE_HOME": str(home / "a" / "treadle"),
    }
    more: dict[str, Any] = {"resume": first.result.session_id, "cwd": first.work, "env": env}
    there = await drive(program, home / "b", DONE, "again", resume_session_at=replies[0], fork_session=True, **more)
    unknown = "6f1f1b0e-57d5-4c9b-9d8e-0123456789ff"
    nowhere = await drive(program, home / "c", DONE, "again", resume_session_at=unknown, fork_session=True, **more)
    return {
        "replies have ids": all(replies),
        "remembers the first": there.reached("remember the heron"),
        "remembers the second": there.reached("remember the owl"),
        "unknown fails": nowhere.result is None or nowhere.result.is_error,
        "_said": [*there.said, *nowhere.said],
    }


SCENARIOS["option resume_session_at"] = _resumed_at


async def _drops(program: str, home: Path) -> Facts:
    first = await drive(program, home / "a", DONE, "remember the heron", "remember the owl")
    prompts = [message.uuid for message in first.of(sdk.UserMessage) if message.uuid]
    env = {
        "HOME": str(home / "a"),
        "CLAUDE_CONFIG_DIR": str(home / "a" / "claude"),
        "TREADLE_HOME": str(home / "a" / "treadle"),
    }
    more: dict[str, Any] = {"resume": first.result.session_id, "cwd": first.work, "env": env}
    known = prompts[-1] if prompts else "6f1f1b0e-57d5-4c9b-9d8e-0123456789ff"
    there = await drive(program, home / "b", DONE, "again", resume_drops_turn=known, fork_session=True, **more)
    return {"failed": there.result is None or there.result.is_error, "_said": there.said}


SCENARIOS["option resume_drops_turn"] = _drops


async def _checkpoints(program: str, home: Path) -> Facts:
    facts: Facts = {}

    async def then(client: Any, seen: Seen) -> None:
        prompts = [m.uuid for m in seen.of(sdk.UserMessage) if m.uuid and isinstance(m.content, str)]
        facts["prompts have ids"] = bool(prompts)
        facts["before"] = (seen.work / "a.txt").read_text()
        await client.rewind_files(prompts[0])
        facts["after"] = (seen.work / "a.txt").read_text()

    call = calling("Read", file_path="{work}/a.txt")
    call += calling("Edit", file_path="{work}/a.txt", old_string="hello", new_string="bye")
    seen = await drive(
        program,
        home,
        call + DONE,
        "go",
        then=then,
        files={"a.txt": "hello\n"},
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    return {**facts, **ended(seen), "_said": seen.said}


SCENARIOS["option enable_file_checkpointing"] = _checkpoints


async def _store(program: str, home: Path) -> Facts:
    facts: Facts = {}
    for flush in ("batched", "eager"):
        store = sdk.InMemorySessionStore()
        seen = await drive(program, home / flush, DONE, "go", session_store=store, session_store_flush=flush)
        project = sdk.project_key_for_directory(str(seen.work))
        key = {"project_key": project, "session_id": seen.result.session_id if seen.result else ""}
        kept = await store.load(key) or []
        kinds = {one.get("type") for one in kept}
        facts[f"{flush}: keeps"] = {"user", "assistant"} <= kinds
        facts[f"{flush}: subtype"] = seen.result.subtype if seen.result else None
    return {**facts, "_said": seen.said}


SCENARIOS["option session_store"] = _store
SCENARIOS["option session_store_flush"] = _store

SCENARIOS |= {
    "hook PreCompact": hooking("PreCompact", DONE, prompts=("one", "/compact")),
    "hook Notification": hooking("Notification", calling("Bash", command="touch made", **BASH) + DONE),
}
