"""How a program works with the official claude-agent-sdk: what it says between prompts, what its hooks and rules do,
and what it is told of faults."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

from tests.drivers.notes_server import SAID
from tests.drivers.notes_server import __file__ as NOTES
from tests.e2e.test_sdk_options import DONE, Host, calling, hooked, host, results, uses
from treadle.wire.common.images import encoded

__all__ = ["host"]
SLOW = '[[reply]]\nwhen = "slowly"\ntext = "one two three four five six seven eight nine ten"\npace = 0.3\n'


def said(host: Host, number: int = -1) -> str:
    return json.dumps(host.sent(number))


async def one(content: Any) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}


async def ask(client: Any, prompt: Any) -> list[Any]:
    await client.query(prompt)
    return [message async for message in client.receive_response()]


# Prompts


PDF = b"%PDF-1.4\n1 0 obj << /Type /Page >> endobj\n%%EOF\n"


def document(data: bytes = PDF, kind: str = "application/pdf") -> dict[str, Any]:
    return {"type": "document", "source": {"type": "base64", "media_type": kind, "data": encoded(data)}}


async def test_a_document_reaches_a_service_that_takes_them_and_stays_in_the_conversation(host: Host) -> None:
    async def then(client: Any, messages: list[Any]) -> None:
        assert (await ask(client, one([{"type": "text", "text": "what is it?"}, document()])))[-1].result
        await ask(client, "and now?")

    await host.play(DONE, then=then, env={"TREADLE_MODEL": "anthropic:claude-opus-5-5", "ANTHROPIC_API_KEY": "k"})
    for number in (1, 2):
        blocks = [block for message in host.sent(number)["messages"] for block in message["content"]]
        assert document() in [{key: block[key] for key in ("type", "source") if key in block} for block in blocks]


async def test_a_slash_command_is_run_and_no_model_is_asked(host: Host) -> None:
    messages = await host.play(DONE, "/context")
    assert not messages[-1].is_error and messages[-1].result and host.server.asked == []


async def test_an_interrupt_ends_the_turn_and_the_next_prompt_runs(host: Host) -> None:
    async def then(client: Any, messages: list[Any]) -> None:
        await client.query("slowly")
        await client.interrupt()
        ended = [message async for message in client.receive_response()][-1]
        assert not (ended.result or "").endswith("ten")
        assert (await ask(client, "go on"))[-1].result == "It is done."

    await host.play(SLOW + DONE, then=then)


# What is set between prompts


async def test_what_is_asked_between_prompts_is_told_and_the_mode_that_is_set_holds(host: Host) -> None:
    async def then(client: Any, messages: list[Any]) -> None:
        info, usage = await client.get_server_info(), await client.get_context_usage()
        assert {"compact", "context"} <= {command["name"] for command in info["commands"]}
        assert {part["name"] for part in usage["categories"]} == {"System prompt", "Tools", "Messages"}
        assert 0 < usage["totalTokens"] < usage["maxTokens"] and usage["model"] == "m"
        with pytest.raises(Exception, match="there is no permission mode 'anything'"):
            await client.set_permission_mode("anything")
        assert not (host.work / "a").exists()
        await client.set_permission_mode("acceptEdits")
        assert (await ask(client, "again"))[-1].result == "It is done."

    script = '[[reply]]\ntimes = 2\nwhen = "^(go|again)$"\n[[reply.call]]\nname = "Write"\n'
    messages = await host.play(script + 'arguments = { file_path = "a", content = "x" }\n' + DONE, then=then)
    assert (host.work / "a").exists()
    counted = [message.usage for message in messages if isinstance(message, sdk.AssistantMessage)][-1]
    assert [counted[name] for name in ("input_tokens", "output_tokens", "cache_read_input_tokens")] == [30, 7, 11]


# Sessions


async def test_the_last_conversation_goes_on_and_the_model_sees_it(host: Host) -> None:
    first = (await host.play(DONE, "remember the heron"))[-1]
    second = (await host.play(DONE, "which bird?", continue_conversation=True))[-1]
    assert second.session_id == first.session_id and "remember the heron" in said(host)


@pytest.mark.slow
async def test_a_session_goes_on_from_the_middle_and_the_model_sees_nothing_after_it(host: Host) -> None:
    messages = await host.play(calling("Bash", command="ls") + DONE, "remember the heron", "remember the owl")
    known = messages[-1].session_id
    called, answer = [one.uuid for one in messages if isinstance(one, sdk.AssistantMessage)][1:3]
    for uuid, sees in ((answer, "It is done."), (called, "I call it.")):
        more: dict[str, Any] = {"resume": known, "resume_session_at": uuid, "fork_session": True}
        await host.play(DONE, "again", **more)
        assert "remember the heron" in said(host) and sees in said(host) and "the owl" not in said(host)
    assert "It is done." not in said(host), "it came after the call"
    await host.play(DONE, "again", resume=known, resume_session_at=answer)
    assert "the owl" not in said(host)
    await host.play(DONE, "further", resume=known)
    assert "the owl" not in said(host) and "again" in said(host), "the session itself went on from there"


# Rules


@pytest.mark.parametrize(
    ("command", "options", "runs"),
    [
        ("touch a", {"allowed_tools": ["Bash(touch a)"]}, True),
        ("touch b", {"allowed_tools": ["Bash(touch a)"]}, False),
        ("touch a", {"permission_mode": "bypassPermissions", "disallowed_tools": ["Bash(touch *)"]}, False),
    ],
)
async def test_a_rule_means_the_commands_that_it_names(
    host: Host, command: str, options: dict[str, Any], runs: bool
) -> None:
    messages = await host.play(calling("Bash", command=command) + DONE, **options)
    assert (host.work / command.split()[1]).exists() == runs
    assert len(messages[-1].permission_denials) == (not runs)


# Servers


async def test_a_tool_of_a_server_that_we_start_is_called(host: Host) -> None:
    servers: Any = {"notes": {"command": sys.executable, "args": [NOTES, str(host.work / "log")]}}
    script = calling("mcp__notes__recall") + DONE
    messages = await host.play(script, mcp_servers=servers, allowed_tools=["mcp__notes"])
    assert uses(messages) == ["mcp__notes__recall"] and SAID in results(messages)[0]


# Hooks


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit"])
async def test_a_hook_adds_to_what_the_model_reads(host: Host, event: str) -> None:
    added = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "mind the heron"}}
    await host.play(calling("Glob", pattern="*") + DONE, **hooked(event, added))
    assert "mind the heron" in said(host)


# What goes wrong


async def test_a_result_of_two_megabytes_does_not_break_the_line(host: Host) -> None:
    script = calling("Bash", command="head -c 2000000 /dev/zero | tr '\\\\0' x") + DONE
    messages = await host.play(script, permission_mode="bypassPermissions")
    assert messages[-1].result == "It is done." and 0 < len(results(messages)[0]) < 200_000


# What a host is told beside the conversation


async def test_a_store_of_the_host_gets_every_line_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(host.work.parent / "claude"))
    store = sdk.InMemorySessionStore()
    messages = await host.play(calling("Bash", command="ls") + DONE, "one", "two", session_store=store)
    key: Any = {"project_key": sdk.project_key_for_directory(str(host.work)), "session_id": messages[-1].session_id}
    lines = await store.load(key)
    assert lines is not None
    assert [line["type"] for line in lines] == [
        "user",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert len({line["uuid"] for line in lines}) == len(lines)


# Servers that come later


async def test_servers_are_added_and_removed_while_the_session_runs(host: Host) -> None:
    Path(os.environ["TREADLE_HOME"]).mkdir(parents=True, exist_ok=True)
    Path(os.environ["TREADLE_HOME"], "config.toml").write_text("[timeouts]\nmcp_start = 60.0\n")
    log = str(host.work.parent / "notes.log")
    notes = {"notes": {"type": "stdio", "command": sys.executable, "args": [NOTES, log]}}
    told: list[Any] = []

    async def then(client: Any, messages: list[Any]) -> None:
        for servers in (notes, {"gone": {"command": "/bin/false"}}):
            told.append(await client._query._send_control_request({"subtype": "mcp_set_servers", "servers": servers}))
            await ask(client, "again")

    await host.play(DONE, then=then)
    added, removed = told
    assert added["added"] == ["notes"] and not added["removed"] and not added["errors"]
    assert removed["removed"] == ["notes"] and not removed["added"] and list(removed["errors"]) == ["gone"]
    offered = [json.dumps(host.sent(number)["tools"]) for number in range(3)]
    assert ["mcp__notes" in one for one in offered] == [False, True, False]
