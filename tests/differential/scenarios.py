"""What is compared: one scenario per option, hook, control request and message of the SDK; each gives named facts.

A fact is an effect: what the model was told, what a host was told, what was done to the files. The names of the
generated ones come from the SDK's own types.
"""

import asyncio
import dataclasses
import json
import sys
import typing
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
from claude_agent_sdk import types

from tests.differential.driving import DONE, Seen, calling, drive, fields
from tests.drivers.notes_server import __file__ as NOTES

Facts = dict[str, Any]
Scenario = Callable[[str, Path], Awaitable[Facts]]
SCENARIOS: dict[str, Scenario] = {}
BASH = {"description": "d"}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def ended(seen: Seen) -> Facts:
    result = seen.result
    if result is None:
        return {"result": None}
    return {"subtype": result.subtype, "is_error": result.is_error, "text": (result.result or "")[:40]}


def simple(name: str, script: str, look: Callable[[Seen], Facts], **given: Any) -> None:
    """A scenario of one prompt."""

    async def run(program: str, home: Path) -> Facts:
        seen = await drive(program, home, script, **given)
        return {**look(seen), "_said": seen.said}

    SCENARIOS[name] = run


def bash(command: str, **more: Any) -> str:
    return calling("Bash", command=command, **BASH, **more) + DONE


# Messages: every field of every message that comes


def message_facts(seen: Seen) -> Facts:
    found: Facts = {}
    for kind in (sdk.ResultMessage, sdk.AssistantMessage, sdk.UserMessage, sdk.StreamEvent):
        there = [fields(message) for message in seen.of(kind)]
        for field in dataclasses.fields(kind):
            found[f"{kind.__name__}.{field.name} is set"] = any(field.name in one for one in there)
    return found


def result_facts(seen: Seen) -> Facts:
    usage, by_model = seen.result.usage or {}, seen.result.model_usage or {}
    model = next(iter(by_model.values()), {})
    return {
        **ended(seen),
        "num_turns": seen.result.num_turns,
        "stop_reason": seen.result.stop_reason,
        "terminal_reason": seen.result.terminal_reason,
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cache_read": usage.get("cache_read_input_tokens"),
        "cost": round(seen.result.total_cost_usd or -1, 7),
        "models": list(by_model),
        "model cost": round(model.get("costUSD") or -1, 7),
        "context window": model.get("contextWindow"),
        "uses": seen.uses,
        "failed": seen.failed,
        "cwd": seen.init.get("cwd") == str(seen.work),
        "model in init": seen.init.get("model"),
        "mode in init": seen.init.get("permissionMode"),
    }


def init_facts(seen: Seen) -> Facts:
    names = typing.get_type_hints(types.SystemInitMessageData) if hasattr(types, "SystemInitMessageData") else {}
    wanted = names or dict.fromkeys(
        "uuid session_id agents claude_code_version cwd tools mcp_servers model slash_commands output_style skills"
        " plugins apiKeySource permissionMode fast_mode_state capabilities terminal_slash_commands".split()
    )
    return {f"init.{name} is there": name in seen.init for name in wanted}


simple(
    "the fields of messages",
    bash("cat a.txt"),
    lambda seen: {**message_facts(seen), **result_facts(seen), **init_facts(seen)},
    files={"a.txt": "hello"},
    include_partial_messages=True,
)


def stream_facts(seen: Seen) -> Facts:
    events = [message.event for message in seen.of(sdk.StreamEvent)]
    deltas = [event["delta"].get("type") for event in events if event.get("type") == "content_block_delta"]
    starts = [event for event in events if event.get("type") == "content_block_start"]
    return {
        **{f"event {kind}": any(event.get("type") == kind for event in events) for kind in EVENTS},
        **{f"delta {kind}": kind in deltas for kind in ("text_delta", "thinking_delta", "input_json_delta")},
        "blocks": [start["content_block"]["type"] for start in starts],
        "indexes": [start["index"] for start in starts],
        "every delta has an index": all("index" in e for e in events if e.get("type") == "content_block_delta"),
        "message_start has a message": all("model" in e["message"] for e in events if e.get("type") == "message_start"),
        "stop reasons": [e["delta"].get("stop_reason") for e in events if e.get("type") == "message_delta"],
    }


EVENTS = "message_start content_block_start content_block_delta content_block_stop message_delta message_stop".split()
simple(
    "partial messages",
    calling("Bash", command="cat a.txt").replace("text =", 'thinking = "hm well"\ntext =', 1) + DONE,
    stream_facts,
    files={"a.txt": "hello"},
    include_partial_messages=True,
)


def use_result(seen: Seen) -> Facts:
    [message] = [one for one in seen.of(sdk.UserMessage) if isinstance(one.content, list)][:1] or [None]
    given = message.tool_use_result if message is not None else None
    wanted = ("stdout", "stderr", "interrupted", "filePath", "structuredPatch", "oldString", "newString", "content")
    wanted += ("originalFile", "type", "file", "filenames", "isImage")
    found: Facts = {f"tool_use_result.{key}": key in given if isinstance(given, dict) else None for key in wanted}
    found["is_error"] = seen.failed
    return found


for tool, call in {
    "Bash": calling("Bash", command="cat a.txt"),
    "Read": calling("Read", file_path="{work}/a.txt"),
    "Write": calling("Write", file_path="{work}/new.txt", content="x\n"),
    "Edit": calling("Read", file_path="{work}/a.txt")
    + calling("Edit", file_path="{work}/a.txt", old_string="hello", new_string="bye"),
}.items():

    def _last(seen: Seen, tool: str = tool) -> Facts:
        seen.messages = [
            m for m in seen.messages if not (isinstance(m, sdk.UserMessage) and tool == "Edit" and _first(m, seen))
        ]
        return use_result(seen)

    def _first(message: Any, seen: Seen) -> bool:
        return message is next((one for one in seen.messages if isinstance(one, sdk.UserMessage)), None)

    simple(
        f"the result of {tool}", call + DONE, _last, files={"a.txt": "hello\nworld\n"}, permission_mode="acceptEdits"
    )

# Permissions

READS = {
    "ls": "ls",
    "git status": "git status --short",
    "cat and head": "cat a.txt | head",
    "grep and head": "grep -r hello . | head -3",
    "pwd": "pwd",
    "find by name": "find . -name '*.txt'",
    "wc": "wc -l a.txt",
    "git log": "git log --oneline -3",
    "echo": "echo hello",
    "diff": "diff a.txt a.txt",
}
WRITES = {
    "mkdir": "mkdir -p made",
    "touch": "touch made",
    "mv": "mv a.txt made",
    "cp": "cp a.txt made",
    "rm": "rm a.txt",
}
WRITES |= {"outside": "mkdir /tmp/differential-outside", "curl": "curl http://127.0.0.1:9", "python": "python3 -c 1"}


def ran(seen: Seen) -> Facts:
    return {"refused": [one["tool_name"] for one in seen.result.permission_denials or []] if seen.result else None}


for label, command in {**READS, **WRITES}.items():
    simple(f"default mode: {label}", bash(command), ran, files={"a.txt": "hello"})
for label, command in WRITES.items():
    simple(f"acceptEdits: {label}", bash(command), ran, files={"a.txt": "hello"}, permission_mode="acceptEdits")
simple("dontAsk: ls", bash("ls"), ran, permission_mode="dontAsk")
simple("dontAsk: rm", bash("rm a.txt"), ran, files={"a.txt": "x"}, permission_mode="dontAsk")
simple("plan: touch", bash("touch x"), ran, permission_mode="plan")
for tool, call in {
    "Write": calling("Write", file_path="{work}/new.txt", content="x\n"),
    "Edit": calling("Read", file_path="{work}/a.txt")
    + calling("Edit", file_path="{work}/a.txt", old_string="hello", new_string="bye"),
    "Read": calling("Read", file_path="{work}/a.txt"),
    "Read outside": calling("Read", file_path="/etc/hostname"),
    "WebFetch": calling("WebFetch", url="http://127.0.0.1:9/", prompt="x"),
}.items():
    for mode in ("default", "acceptEdits", "plan"):
        simple(f"{mode}: {tool}", call + DONE, ran, files={"a.txt": "hello\n"}, permission_mode=mode)

for label, (given, command) in {
    "allowed": ({"allowed_tools": ["Bash(touch:*)"]}, "touch x"),
    "disallowed": ({"disallowed_tools": ["Bash(ls:*)"]}, "ls"),
    "deny beats allow": ({"allowed_tools": ["Bash"], "disallowed_tools": ["Bash(touch:*)"]}, "touch x"),
    "half allowed": ({"allowed_tools": ["Bash(touch:*)"]}, "touch x && rm a.txt"),
}.items():
    simple(f"rules: {label}", bash(command), ran, files={"a.txt": "x"}, **given)


def asking(answer: Callable[[str, dict[str, Any], Any], Any], call: str, **given: Any) -> Scenario:
    async def run(program: str, home: Path) -> Facts:
        asked: list[tuple[str, dict[str, Any], Any]] = []

        async def can_use(name: str, arguments: dict[str, Any], context: Any) -> Any:
            asked.append((name, arguments, context))
            return answer(name, arguments, context)

        seen = await drive(program, home, call + DONE, can_use_tool=can_use, files={"a.txt": "hello\n"}, **given)
        return {
            "asked": [name for name, _, _ in asked],
            "arguments": [sorted(arguments) for _, arguments, _ in asked],
            "has a call id": [bool(context.tool_use_id) for _, _, context in asked],
            "suggests": [sorted({s.type for s in context.suggestions}) for _, _, context in asked],
            "made": sorted(path.name for path in seen.work.iterdir() if not path.name.startswith(".")),
            "reached": seen.reached("says the host"),
            **ended(seen),
            "_said": seen.said,
        }

    return run


ALLOW, DENY = sdk.PermissionResultAllow, sdk.PermissionResultDeny
SCENARIOS |= {
    "can_use_tool allows": asking(lambda n, a, c: ALLOW(), calling("Bash", command="touch made", **BASH)),
    "can_use_tool denies": asking(
        lambda n, a, c: DENY(message="no, says the host"), calling("Bash", command="touch made", **BASH)
    ),
    "can_use_tool interrupts": asking(
        lambda n, a, c: DENY(message="stop", interrupt=True), calling("Bash", command="touch made", **BASH)
    ),
    "can_use_tool changes": asking(
        lambda n, a, c: ALLOW(updated_input={**a, "command": "touch other"}),
        calling("Bash", command="touch made", **BASH),
    ),
    "can_use_tool on Write": asking(lambda n, a, c: ALLOW(), calling("Write", file_path="{work}/made", content="x")),
    "can_use_tool on ls": asking(lambda n, a, c: DENY(message="no"), calling("Bash", command="ls", **BASH)),
    "can_use_tool remembers": asking(
        lambda n, a, c: ALLOW(updated_permissions=c.suggestions),
        calling("Bash", command="touch made", **BASH) + calling("Bash", command="touch made", **BASH),
    ),
}

# Hooks: every event of the SDK, each field of its input


def hooking(
    event: str, script: str, output: Any = None, matcher: str | None = None, prompts: tuple[str, ...] = (), **given: Any
) -> Scenario:
    async def run(program: str, home: Path) -> Facts:
        got: list[dict[str, Any]] = []

        async def hook(told: Any, call: str | None, context: Any) -> Any:
            got.append(
                {**told, "_exists": Path(told.get("transcript_path") or "/nowhere/x").exists(), "_call": bool(call)}
            )
            return output or {}

        hooks = {event: [sdk.HookMatcher(matcher=matcher, hooks=[hook])]}
        seen = await drive(program, home, script, *prompts, hooks=hooks, files={"a.txt": "the secret"}, **given)
        hints = typing.get_type_hints(getattr(types, f"{event}HookInput"))
        wanted = [name for name in hints if name not in ("prompt_id", "effort", "session_crons", "background_tasks")]
        first = got[0] if got else {}
        return {
            "called": len(got),
            **{f"input.{name}": bool(first.get(name)) or first.get(name) is False for name in wanted},
            "tool": [one.get("tool_name") for one in got],
            "call id": [one["_call"] for one in got],
            "transcript exists": [one["_exists"] for one in got],
            "the model reads it": seen.reached("so says the hook"),
            "the model reads the secret": seen.reached("the secret"),
            "made": sorted(path.name for path in seen.work.iterdir() if not path.name.startswith(".")),
            "calls of the model": len(seen.told),
            **ended(seen),
            "_said": seen.said,
        }

    return run


def out(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


TOUCH, CAT, FAIL = bash("touch made"), bash("cat a.txt"), bash("cat nowhere.txt")
AGENT = calling("Agent", subagent_type="helper", prompt="look for it", description="look") + DONE
HELPER = {"helper": sdk.AgentDefinition(description="helps", prompt="You help.")}
ANY = {"allowed_tools": ["Bash", "Agent"]}
SAYS = "so says the hook"
SCENARIOS |= {
    "hook PreToolUse": hooking("PreToolUse", CAT, **ANY),
    "hook PreToolUse by name": hooking("PreToolUse", CAT, matcher="Write|Edit", **ANY),
    "hook PreToolUse denies": hooking(
        "PreToolUse", TOUCH, out("PreToolUse", permissionDecision="deny", permissionDecisionReason=SAYS), **ANY
    ),
    "hook PreToolUse allows": hooking("PreToolUse", TOUCH, out("PreToolUse", permissionDecision="allow")),
    "hook PreToolUse changes": hooking(
        "PreToolUse", TOUCH, out("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch other"})
    ),
    "hook PreToolUse adds": hooking("PreToolUse", CAT, out("PreToolUse", additionalContext=SAYS), **ANY),
    "hook PreToolUse stops": hooking("PreToolUse", TOUCH, {"continue_": False, "stopReason": SAYS}, **ANY),
    "hook PreToolUse in the old form": hooking("PreToolUse", TOUCH, {"decision": "block", "reason": SAYS}, **ANY),
    "hook PostToolUse": hooking("PostToolUse", CAT, **ANY),
    "hook PostToolUse adds": hooking("PostToolUse", CAT, out("PostToolUse", additionalContext=SAYS), **ANY),
    "hook PostToolUse blocks": hooking("PostToolUse", CAT, {"decision": "block", "reason": SAYS}, **ANY),
    "hook PostToolUse of a failing tool": hooking("PostToolUse", FAIL, **ANY),
    "hook PostToolUseFailure": hooking(
        "PostToolUseFailure", FAIL, out("PostToolUseFailure", additionalContext=SAYS), **ANY
    ),
    "hook UserPromptSubmit": hooking("UserPromptSubmit", DONE),
    "hook UserPromptSubmit adds": hooking("UserPromptSubmit", DONE, out("UserPromptSubmit", additionalContext=SAYS)),
    "hook UserPromptSubmit blocks": hooking("UserPromptSubmit", DONE, {"decision": "block", "reason": SAYS}),
    "hook Stop": hooking("Stop", DONE),
    "hook SubagentStart": hooking("SubagentStart", AGENT, agents=HELPER, **ANY),
    "hook SubagentStop": hooking("SubagentStop", AGENT, agents=HELPER, **ANY),
    "hook PermissionRequest denies": hooking(
        "PermissionRequest", TOUCH, out("PermissionRequest", decision={"behavior": "deny", "message": SAYS})
    ),
    "hook PermissionRequest allows": hooking(
        "PermissionRequest", TOUCH, out("PermissionRequest", decision={"behavior": "allow"})
    ),
}

# Options


def system_of(seen: Seen) -> str:
    return json.dumps(seen.told[0].get("system")) if seen.told else ""


simple(
    "option system_prompt",
    DONE,
    lambda s: {"there": "You are a parrot." in system_of(s), **ended(s)},
    system_prompt="You are a parrot.",
)
simple(
    "option system_prompt appended",
    DONE,
    lambda s: {"there": "Speak in rhymes." in system_of(s), "with ours": len(system_of(s)) > 500},
    system_prompt={"type": "preset", "preset": "claude_code", "append": "Speak in rhymes."},
)
for name in ("opus", "sonnet", "haiku", "claude-sonnet-4-5", "default"):
    simple(
        f"option model {name}",
        DONE,
        lambda s: {"model": s.told[0]["model"] if s.told else None, **ended(s)},
        model=name,
    )
simple("option model opusplan", DONE, lambda s: {"model": s.told[0]["model"] if s.told else None}, model="opusplan")
simple("option max_turns", bash("ls") * 3, lambda s: {**ended(s), "calls": len(s.told)}, max_turns=1)
simple("option max_budget_usd", bash("ls") * 3, lambda s: {**ended(s), "calls": len(s.told)}, max_budget_usd=0.00001)
simple("option max_budget_usd that is enough", DONE, ended, max_budget_usd=5.0)
simple(
    "option tools",
    DONE,
    lambda s: {"offered": s.offered, "in init": sorted(s.init.get("tools") or [])},
    tools=["Read", "Bash"],
)
simple("option tools none", DONE, lambda s: {"offered": s.offered}, tools=[])
simple(
    "option disallowed_tools",
    DONE,
    lambda s: {"bash": "Bash" in map(str, s.init.get("tools", []))},
    disallowed_tools=["Bash"],
)
simple(
    "option env",
    bash("echo $COLOUR"),
    lambda s: {"reached": s.reached("dark red")},
    env={"COLOUR": "dark red"},
    allowed_tools=["Bash"],
)
simple("option add_dirs", DONE, ended, add_dirs=["/tmp"])
simple(
    "option session_id", DONE, lambda s: {"id": s.result.session_id}, session_id="6f1f1b0e-57d5-4c9b-9d8e-0123456789ab"
)
simple(
    "option max_thinking_tokens",
    DONE,
    lambda s: {"asked for": bool(s.told[0].get("thinking"))},
    max_thinking_tokens=2048,
)
simple(
    "option thinking disabled",
    DONE,
    lambda s: {"off": (s.told[0].get("thinking") or {}).get("type") in (None, "disabled")},
    thinking={"type": "disabled"},
)
simple("option effort", DONE, lambda s: {"there": "high" in json.dumps(s.told[0].get("output_config"))}, effort="high")
simple("option permission_mode in init", DONE, lambda s: {"mode": s.init.get("permissionMode")}, permission_mode="plan")
simple("option user", DONE, ended, user="somebody")
simple("option betas", DONE, ended, betas=["context-1m-2025-08-07"])
simple("option fallback_model", DONE, ended, fallback_model="claude-sonnet-5-5")
simple("option extra_args", DONE, ended, extra_args={"debug-to-stderr": None})
simple(
    "option agents",
    AGENT,
    lambda s: {"offered": s.reached("helper"), "prompt": s.reached("You help."), "uses": s.uses[:1]},
    agents=HELPER,
    **ANY,
)
simple(
    "option agents with a model",
    AGENT,
    lambda s: {"models": sorted({one["model"] for one in s.told})},
    agents={"helper": sdk.AgentDefinition(description="helps", prompt="You help.", model="haiku")},
    **ANY,
)
simple(
    "option agents with tools",
    AGENT,
    lambda s: {"only": [t["name"] for t in s.told[1].get("tools", [])] if len(s.told) > 1 else None},
    agents={"helper": sdk.AgentDefinition(description="h", prompt="p", tools=["Read"])},
    **ANY,
)

# Files


def settings_file(**content: Any) -> dict[str, str]:
    return {".claude/settings.json": json.dumps(content), "a.txt": "x"}


PROJECT = {"setting_sources": ["project"]}
JUDGE = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo not so >&2; exit 2"}]}]}
simple(
    "file: deny",
    bash("touch made"),
    ran,
    files=settings_file(permissions={"deny": ["Bash(touch:*)"]}),
    allowed_tools=["Bash"],
    **PROJECT,
)
simple(
    "file: deny of a read",
    calling("Read", file_path="{work}/a.txt") + DONE,
    lambda s: {"failed": s.failed},
    files=settings_file(permissions={"deny": ["Read(./a.txt)"]}),
    **PROJECT,
)
simple("file: ask", bash("ls"), ran, files=settings_file(permissions={"ask": ["Bash(ls:*)"]}), **PROJECT)
simple("file: allow", bash("touch made"), ran, files=settings_file(permissions={"allow": ["Bash(touch:*)"]}), **PROJECT)
simple(
    "file: env",
    bash("echo $COLOUR"),
    lambda s: {"reached": s.reached("dark red")},
    files=settings_file(env={"COLOUR": "dark red"}),
    **PROJECT,
)
simple(
    "file: hooks", bash("ls"), lambda s: {"reached": s.reached("not so")}, files=settings_file(hooks=JUDGE), **PROJECT
)
simple(
    "file: not named as a source",
    bash("ls"),
    ran,
    files=settings_file(permissions={"deny": ["Bash(ls:*)"]}),
    setting_sources=[],
)
simple(
    "file: local",
    bash("ls"),
    ran,
    files={".claude/settings.local.json": json.dumps({"permissions": {"deny": ["Bash(ls:*)"]}})},
    setting_sources=["local"],
)
simple(
    "file: user",
    bash("ls"),
    ran,
    files={"claude/settings.json": json.dumps({"permissions": {"deny": ["Bash(ls:*)"]}})},
    setting_sources=["user"],
)
simple(
    "file: user env",
    bash("echo $COLOUR"),
    lambda s: {"reached": s.reached("dark red")},
    files={"claude/settings.json": json.dumps({"env": {"COLOUR": "dark red"}})},
    setting_sources=["user"],
)
simple(
    "file: user hooks",
    bash("ls"),
    lambda s: {"reached": s.reached("not so")},
    files={"claude/settings.json": json.dumps({"hooks": JUDGE})},
    setting_sources=["user"],
)
simple("file: settings option", bash("ls"), ran, settings=json.dumps({"permissions": {"deny": ["Bash(ls:*)"]}}))
simple(
    "file: settings option with hooks",
    bash("ls"),
    lambda s: {"reached": s.reached("not so")},
    settings=json.dumps({"hooks": JUDGE}),
)
simple(
    "file: settings option with env",
    bash("echo $COLOUR"),
    lambda s: {"reached": s.reached("dark red")},
    settings=json.dumps({"env": {"COLOUR": "dark red"}}),
)
simple(
    "file: CLAUDE.md",
    DONE,
    lambda s: {"reached": s.reached("Speak like a heron.")},
    files={"CLAUDE.md": "Speak like a heron."},
    **PROJECT,
)
simple(
    "file: CLAUDE.md not wanted",
    DONE,
    lambda s: {"reached": s.reached("Speak like a heron.")},
    files={"CLAUDE.md": "Speak like a heron."},
    setting_sources=[],
)
simple(
    "file: agents",
    DONE,
    lambda s: {"listed": "owl" in s.init.get("agents", []), "offered": s.reached("looks at night")},
    files={".claude/agents/owl.md": "---\nname: owl\ndescription: looks at night\n---\nYou are an owl."},
    **PROJECT,
)
simple(
    "file: skills",
    DONE,
    lambda s: {"listed": "dig" in s.init.get("skills", []), "offered": s.reached("digs holes")},
    files={".claude/skills/dig/SKILL.md": "---\nname: dig\ndescription: digs holes\n---\nDig."},
    **PROJECT,
)
SCENARIOS_COMMAND = {".claude/commands/hey.md": "Say hey to $ARGUMENTS, heron."}


async def _command(program: str, home: Path) -> Facts:
    seen = await drive(program, home, DONE, "/hey you", files=SCENARIOS_COMMAND, **PROJECT)
    return {
        "expanded": seen.reached("Say hey to you, heron."),
        "listed": "hey" in seen.init.get("slash_commands", []),
        "_said": seen.said,
    }


SCENARIOS["file: commands"] = _command


async def _plugin(program: str, home: Path) -> Facts:
    files = {"plug/.claude-plugin/plugin.json": '{"name": "plug"}', "plug/commands/hey.md": "Say hey, heron."}
    plugins = [{"type": "local", "path": str(home / "work" / "plug")}]
    seen = await drive(program, home, DONE, "/plug:hey", files=files, plugins=plugins)
    return {
        "expanded": seen.reached("Say hey, heron."),
        "listed": "plug:hey" in seen.init.get("slash_commands", []),
        "_said": seen.said,
    }


SCENARIOS["option plugins"] = _plugin

# Control requests


async def _control(program: str, home: Path) -> Facts:
    facts: Facts = {}

    async def then(client: Any, seen: Seen) -> None:
        await client.set_permission_mode("acceptEdits")
        await client.set_model("claude-sonnet-4-5")
        await client.query("again")
        seen.messages += [message async for message in client.receive_response()]
        info = await client.get_server_info() or {}
        facts.update(
            {f"server info.{name}": bool(info.get(name)) for name in ("commands", "output_style", "models", "account")}
        )
        usage = await client.get_context_usage()
        for name in ("categories", "totalTokens", "maxTokens", "percentage", "model"):
            facts[f"context.{name}"] = name in usage
        facts["max tokens"] = usage.get("rawMaxTokens")
        facts["mcp"] = (await client.get_mcp_status()).get("mcpServers")

    seen = await drive(program, home, DONE, "one", then=then)
    return {
        **facts,
        "models": [one["model"] for one in seen.told],
        "results": len(seen.of(sdk.ResultMessage)),
        **ended(seen),
        "_said": seen.said,
    }


SCENARIOS["control requests"] = _control


async def _interrupted(program: str, home: Path) -> Facts:
    async def then(client: Any, seen: Seen) -> None:
        await client.query("slowly")
        await asyncio.sleep(0)
        async for message in client.receive_messages():
            seen.messages.append(message)
            if isinstance(message, sdk.StreamEvent):
                await client.interrupt()
                break
        seen.messages += [message async for message in client.receive_response()]
        await client.query("again")
        seen.messages += [message async for message in client.receive_response()]

    slow = '[[reply]]\nwhen = "slowly"\ntext = "' + "slow words " * 200 + '"\npace = 0.05\n' + DONE
    seen = await drive(program, home, slow, then=then, include_partial_messages=True)
    first = seen.of(sdk.ResultMessage)[0] if seen.of(sdk.ResultMessage) else None
    texts = [
        b.text
        for m in seen.of(sdk.UserMessage)
        if isinstance(m.content, list)
        for b in m.content
        if isinstance(b, sdk.TextBlock)
    ]
    return {
        "subtype": first and first.subtype,
        "is_error": first and first.is_error,
        "terminal": first and first.terminal_reason,
        "marker": texts[:1],
        "goes on": (seen.result.result or "")[:20] if seen.result else None,
        "_said": seen.said,
    }


SCENARIOS["control interrupt"] = _interrupted


async def _resumed(program: str, home: Path) -> Facts:
    first = await drive(program, home / "a", DONE, "remember the heron")
    known = first.result.session_id
    env = {
        "HOME": str(home / "a"),
        "CLAUDE_CONFIG_DIR": str(home / "a" / "claude"),
        "TREADLE_HOME": str(home / "a" / "treadle"),
    }
    common: dict[str, Any] = {"cwd": first.work, "env": env}
    resumed = await drive(program, home / "b", DONE, "again", resume=known, **common)
    forked = await drive(program, home / "c", DONE, "again", resume=known, fork_session=True, **common)
    further = await drive(program, home / "d", DONE, "again", continue_conversation=True, **common)
    unknown = await drive(program, home / "e", DONE, "again", resume="6f1f1b0e-57d5-4c9b-9d8e-0123456789ff", **common)
    return {
        "same id": resumed.result.session_id == known,
        "remembers": resumed.reached("remember the heron"),
        "fork has another id": forked.result.session_id != known,
        "fork remembers": forked.reached("remember the heron"),
        "continues": further.reached("remember the heron"),
        "unknown fails": unknown.result is None or unknown.result.is_error,
        "_said": [],
    }


SCENARIOS["option resume, fork_session, continue_conversation"] = _resumed


async def _sessions(program: str, home: Path) -> Facts:
    seen = await drive(program, home, calling("Bash", command="ls", **BASH) + DONE, "remember the heron")
    known, place = seen.result.session_id, str(seen.work)
    import os

    before = os.environ.get("CLAUDE_CONFIG_DIR")
    os.environ["CLAUDE_CONFIG_DIR"] = str(home / "claude")
    try:
        listed = sdk.list_sessions(directory=place)
        info = sdk.get_session_info(known, directory=place)
        said = sdk.get_session_messages(known, directory=place)
        facts: Facts = {
            "listed": [one.session_id == known for one in listed],
            "info": info is not None,
            "first prompt": info.first_prompt if info is not None else None,
            "cwd": info is not None and info.cwd == place,
            "kinds of messages": [one.type for one in said],
        }
        sdk.rename_session(known, "the heron", directory=place)
        renamed = sdk.get_session_info(known, directory=place)
        facts["renamed"] = renamed.custom_title if renamed is not None else None
        forked = sdk.fork_session(known, directory=place)
        facts["forked"] = len(sdk.get_session_messages(forked.session_id, directory=place)) == len(said)
        sdk.delete_session(known, directory=place)
        facts["deleted"] = sdk.get_session_info(known, directory=place) is None
    except Exception as error:
        facts = {"raised": type(error).__name__}
    finally:
        os.environ.pop("CLAUDE_CONFIG_DIR") if before is None else os.environ.update(CLAUDE_CONFIG_DIR=before)
    return {**facts, "_said": seen.said}


SCENARIOS["sessions on disk"] = _sessions


async def _mcp(program: str, home: Path) -> Facts:
    called: list[Any] = []

    @sdk.tool("add", "Adds", {"a": int, "b": int})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        called.append(given)
        return {"content": [{"type": "text", "text": "the secret sum"}]}

    async def hide(told: Any, call: str | None, context: Any) -> Any:
        return out("PostToolUse", updatedMCPToolOutput=[{"type": "text", "text": "nothing to see"}])

    facts: Facts = {}

    async def then(client: Any, seen: Seen) -> None:
        facts["states"] = sorted((one["name"], one["status"]) for one in (await client.get_mcp_status())["mcpServers"])

    servers = {
        "calc": sdk.create_sdk_mcp_server("calc", tools=[add]),
        "notes": {"type": "stdio", "command": sys.executable, "args": [NOTES, str(home / "notes.log")]},
    }
    seen = await drive(
        program,
        home,
        calling("mcp__calc__add", a=2, b=3) + DONE,
        "go",
        then=then,
        mcp_servers=servers,
        allowed_tools=["mcp__calc__add"],
        hooks={"PostToolUse": [sdk.HookMatcher(matcher="mcp__.*", hooks=[hide])]},
    )
    return {
        **facts,
        "called": called,
        "reads the secret": seen.reached("the secret sum"),
        "reads the other": seen.reached("nothing to see"),
        "uses": seen.uses,
        **ended(seen),
        "_said": seen.said,
    }


SCENARIOS["option mcp_servers"] = _mcp


async def _dead_server(program: str, home: Path) -> Facts:
    servers = {"dead": {"type": "stdio", "command": "sleep", "args": ["1000"]}}
    seen = await drive(program, home, DONE, "go", mcp_servers=servers)
    return {
        **ended(seen),
        "listed": [one["name"] for one in seen.init.get("mcp_servers", [])],
        "state": [one["status"] for one in seen.init.get("mcp_servers", [])],
        "_said": seen.said,
    }


SCENARIOS["option mcp_servers, one that never answers"] = _dead_server


async def _background(program: str, home: Path) -> Facts:
    async def then(client: Any, seen: Seen) -> None:
        await client.query("go")
        async for message in client.receive_messages():
            seen.messages.append(message)
            if isinstance(message, sdk.ResultMessage):
                (seen.work / "go").touch()  # it ends when the turn is over, however slow the machine is
                if len(seen.of(sdk.ResultMessage)) > 1:
                    break

    command = "until [ -e go ]; do sleep 0.1; done; echo finished"
    call = calling("Bash", command=command, run_in_background=True, **BASH)
    seen = await drive(program, home, call + DONE, then=then, allowed_tools=["Bash"])
    started, told = seen.of(sdk.TaskStartedMessage), seen.of(sdk.TaskNotificationMessage)
    return {
        "started": len(started),
        "has an id": bool(started and started[0].task_id),
        "kind": started[0].task_type if started else None,
        "names the call": bool(started and started[0].tool_use_id),
        "told": [one.status for one in told],
        "same id": bool(started and told and started[0].task_id == told[0].task_id),
        "output file": bool(told and Path(told[0].output_file).exists()),
        "results": len(seen.of(sdk.ResultMessage)),
        "_said": seen.said,
    }


SCENARIOS["background tasks"] = _background


async def _stopped(program: str, home: Path) -> Facts:
    async def then(client: Any, seen: Seen) -> None:
        await client.query("go")
        async for message in client.receive_messages():
            seen.messages.append(message)
            if isinstance(message, sdk.ResultMessage):
                break
        started = seen.of(sdk.TaskStartedMessage)
        if started:
            await client.stop_task(started[0].task_id)
            async for message in client.receive_messages():
                seen.messages.append(message)
                if isinstance(message, sdk.TaskNotificationMessage):
                    break

    call = calling("Bash", command="sleep 30", run_in_background=True, **BASH)
    seen = await drive(program, home, call + DONE, then=then, allowed_tools=["Bash"])
    return {"told": [one.status for one in seen.of(sdk.TaskNotificationMessage)], "_said": seen.said}


SCENARIOS["control stop_task"] = _stopped

# What goes wrong

simple(
    "fault: an error of the service",
    '[[reply]]\ntimes = "always"\nerror = { status = 400, message = "no such thing" }\n',
    lambda s: {**ended(s), "says": "no such thing" in (s.result.result or "") + " ".join(s.said)},
)
simple("fault: an unknown tool", calling("Nonsense", a=1) + DONE, lambda s: {"failed": s.failed, **ended(s)})
simple(
    "fault: a file that is not there",
    calling("Read", file_path="{work}/none.txt") + DONE,
    lambda s: {"failed": s.failed, **ended(s)},
)
simple(
    "fault: a command that fails",
    bash("cat none.txt; exit 3"),
    lambda s: {"failed": s.failed, **ended(s)},
    allowed_tools=["Bash"],
)


async def _cut(program: str, home: Path) -> Facts:
    script = (
        '[[reply]]\nthinking = "hm well so"\n[[reply.call]]\nname = "Bash"\narguments = { command = "ls" }\n' + DONE
    )
    seen = await drive(program, home, script, "go", faults=["cut"])
    return {**ended(seen), "failed": seen.failed, "_said": seen.said}


SCENARIOS["fault: a reply that is cut in a call"] = _cut
