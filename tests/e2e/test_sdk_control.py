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

from tests.agent.pixels import png
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


async def test_an_image_in_a_prompt_reaches_the_model(host: Host) -> None:
    async def then(client: Any, messages: list[Any]) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded(png())}}
        assert (await ask(client, one([{"type": "text", "text": "what is it?"}, image])))[-1].result == "It is done."

    await host.play(DONE, then=then)
    assert encoded(png()) in said(host) and "what is it?" in said(host)


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


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (document(), "is a PDF, which the service of this model does not take"),
        (document(kind="application/msword"), "save it as a file and name its path"),
    ],
)
async def test_a_document_that_cannot_be_shown_is_refused_and_the_session_goes_on(
    host: Host, block: dict[str, Any], why: str
) -> None:
    async def then(client: Any, messages: list[Any]) -> None:
        refused = (await ask(client, one([block])))[-1]
        assert refused.is_error and why in str(refused.errors)
        assert (await ask(client, "go on"))[-1].result == "It is done."

    await host.play(DONE, then=then)


async def test_characters_beyond_ascii_come_through_both_ways(host: Host) -> None:
    messages = await host.play(DONE.replace("It is done.", "Schön 🦆"), "tippe ⌨️ 🦢")
    assert messages[-1].result == "Schön 🦆" and host.sent()["messages"][-1]["content"] == "tippe ⌨️ 🦢"


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


async def test_partial_messages_are_the_words_of_the_result(host: Host) -> None:
    messages = await host.play(DONE, include_partial_messages=True)
    deltas = [m.event.get("delta", {}).get("text", "") for m in messages if isinstance(m, sdk.StreamEvent)]
    assert "".join(deltas) == messages[-1].result == "It is done."


async def test_thinking_is_a_block_of_its_own(host: Host) -> None:
    messages = await host.play('[[reply]]\nthinking = "Let me think."\ntext = "Thought."\n' + DONE)
    blocks = [block for m in messages if isinstance(m, sdk.AssistantMessage) for block in m.content]
    assert [type(block).__name__ for block in blocks] == ["ThinkingBlock", "TextBlock"]


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


async def test_a_background_task_is_stopped_by_its_id(host: Host) -> None:
    async def then(client: Any, messages: list[Any]) -> None:
        tasks = [m.event["background_task_event"] for m in messages if isinstance(m, sdk.StreamEvent)]
        await client.stop_task(next(one["task"]["id"] for one in tasks if "task" in one))

    script = calling("Bash", command="sleep 300", background=True)
    await host.play(script + DONE, then=then, permission_mode="bypassPermissions")


# Sessions


async def test_the_last_conversation_goes_on_and_the_model_sees_it(host: Host) -> None:
    first = (await host.play(DONE, "remember the heron"))[-1]
    second = (await host.play(DONE, "which bird?", continue_conversation=True))[-1]
    assert second.session_id == first.session_id and "remember the heron" in said(host)


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


async def test_the_ids_of_a_listed_session_are_those_of_its_stream(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(host.work.parent / "claude"))
    messages = await host.play(calling("Bash", command="ls") + DONE, "remember the heron")
    streamed = [one.uuid for one in messages if isinstance(one, sdk.AssistantMessage | sdk.UserMessage)]
    listed = sdk.get_session_messages(messages[-1].session_id, directory=str(host.work))
    assert streamed == [one.uuid for one in listed][1:], "the prompt is only in the list"


async def test_a_message_that_no_session_has_is_an_error_that_names_it(host: Host) -> None:
    known = (await host.play(DONE, "remember the heron"))[-1].session_id
    with pytest.raises(sdk.ProcessError):
        await host.play(DONE, "again", resume=known, resume_session_at="6f1f1b0e-57d5-4c9b-9d8e-0123456789ff")
    assert any("0123456789ff" in line for line in host.said)


async def test_the_session_has_the_id_that_the_host_chose(host: Host) -> None:
    chosen = "6f1f1b0e-57d5-4c9b-9d8e-0123456789ab"
    messages = await host.play(DONE, session_id=chosen)
    assert messages[0].data["session_id"] == messages[-1].session_id == chosen


async def test_a_session_that_is_not_there_is_an_error_that_names_it(host: Host) -> None:
    with pytest.raises(Exception) as error:
        await host.play(DONE, resume="no-such-session")
    assert "no-such-session" in str(error.value) + "".join(host.said)


async def test_the_plain_function_takes_a_prompt_and_ends_with_a_result(host: Host) -> None:
    (host.work.parent / "script.toml").write_text(DONE)
    model = f"scripted:{host.work.parent / 'script.toml'}"
    options = sdk.ClaudeAgentOptions(cli_path=host.program, cwd=host.work, model=model)
    messages = [message async for message in sdk.query(prompt="go", options=options)]
    assert isinstance(messages[-1], sdk.ResultMessage) and messages[-1].result == "It is done."


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


async def test_rules_of_a_settings_text_hold(host: Host) -> None:
    settings = json.dumps({"permissions": {"allow": ["Bash(touch a)"], "deny": ["Read(secret.txt)"]}})
    (host.work / "secret.txt").write_text("the secret")
    script = calling("Bash", command="touch a") + calling("Read", file_path="secret.txt") + DONE
    await host.play(script, settings=settings)
    assert (host.work / "a").exists() and "the secret" not in said(host)


async def test_a_further_directory_can_be_worked_in(host: Host, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    script = calling("Write", file_path=str(other / "a"), content="x") + DONE
    await host.play(script, add_dirs=[other], permission_mode="acceptEdits")
    assert (other / "a").exists()


async def test_the_limit_of_turns_is_an_error_of_its_own_kind(host: Host) -> None:
    ended = (await host.play(calling("Glob", pattern="*") + DONE, max_turns=1))[-1]
    assert ended.is_error and ended.terminal_reason == "max_turns" and "stopped after 1 model calls" in ended.errors[0]


# Servers


async def test_a_tool_of_a_server_that_we_start_is_called(host: Host) -> None:
    servers: Any = {"notes": {"command": sys.executable, "args": [NOTES, str(host.work / "log")]}}
    script = calling("mcp__notes__recall") + DONE
    messages = await host.play(script, mcp_servers=servers, allowed_tools=["mcp__notes"])
    assert uses(messages) == ["mcp__notes__recall"] and SAID in results(messages)[0]


async def test_a_server_that_does_not_start_is_told_and_the_rest_works(host: Host) -> None:
    messages = await host.play(DONE, mcp_servers={"gone": {"command": "/no/such/server"}})
    assert messages[0].data["mcp_servers"] == [{"name": "gone", "status": "failed"}]
    assert messages[-1].result == "It is done." and any("gone" in line for line in host.said)


# Hooks


@pytest.mark.parametrize("event", ["PostToolUse", "UserPromptSubmit"])
async def test_a_hook_adds_to_what_the_model_reads(host: Host, event: str) -> None:
    added = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "mind the heron"}}
    await host.play(calling("Glob", pattern="*") + DONE, **hooked(event, added))
    assert "mind the heron" in said(host)


async def test_a_hook_before_a_prompt_keeps_it_from_the_model(host: Host) -> None:
    blocked = {"decision": "block", "reason": "not on a Sunday"}
    ended = (await host.play(DONE, **hooked("UserPromptSubmit", blocked)))[-1]
    assert not ended.is_error and "not on a Sunday" in ended.result and host.server.asked == []


async def test_a_hook_at_the_end_makes_the_agent_go_on(host: Host) -> None:
    answers = iter([{"decision": "block", "reason": "the tests are missing"}, {}])

    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        return next(answers)

    await host.play(DONE, hooks={"Stop": [sdk.HookMatcher(hooks=[hook])]})
    assert len(host.server.asked) == 2 and "the tests are missing" in said(host)


# What goes wrong


async def test_a_tool_that_fails_is_marked_and_the_turn_goes_on(host: Host) -> None:
    messages = await host.play(calling("Read", file_path="absent.txt") + DONE)
    [block] = [b for m in messages if isinstance(m, sdk.UserMessage) for b in m.content if hasattr(b, "is_error")]
    assert block.is_error and messages[-1].result == "It is done."


async def test_an_error_of_the_service_is_told_in_its_words(host: Host) -> None:
    failing = '[[reply]]\ntimes = "always"\n[reply.error]\nstatus = 401\nmessage = "the key is wrong"\n'
    ended = (await host.play(failing))[-1]
    assert ended.is_error and "the key is wrong" in ended.errors[0]


async def test_a_result_of_two_megabytes_does_not_break_the_line(host: Host) -> None:
    script = calling("Bash", command="head -c 2000000 /dev/zero | tr '\\\\0' x") + DONE
    messages = await host.play(script, permission_mode="bypassPermissions")
    assert messages[-1].result == "It is done." and 0 < len(results(messages)[0]) < 200_000


# What a host is told beside the conversation

HELP = calling("Agent", subagent_type="helper", prompt="look for it", description="look") + DONE
HELPER = {"helper": sdk.AgentDefinition(description="helps", prompt="You help.")}


async def test_the_words_of_a_subagent_are_forwarded_if_the_host_wants_them(host: Host) -> None:
    for wanted in (False, True):
        messages = await host.play(HELP, "go", agents=HELPER, forward_subagent_text=wanted, allowed_tools=["Agent"])
        inner = [one for one in messages if isinstance(one, sdk.AssistantMessage) and one.parent_tool_use_id]
        words = [block.text for one in inner for block in one.content if isinstance(block, sdk.TextBlock)]
        assert words == (["It is done."] if wanted else [])


async def test_what_hooks_of_settings_begin_and_end_is_told_if_the_host_wants_it(host: Host) -> None:
    entry = {"type": "command", "command": "echo not so >&2; exit 2"}
    settings = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [entry]}]}})
    messages = await host.play(calling("Bash", command="ls") + DONE, settings=settings, include_hook_events=True)
    began, ended = [one.data for one in messages if getattr(one, "subtype", "").startswith("hook_")]
    assert (began["subtype"], began["hook_name"], began["hook_event"]) == (
        "hook_started",
        "PreToolUse:Bash",
        "PreToolUse",
    )
    assert (ended["subtype"], ended["hook_id"], ended["exit_code"]) == ("hook_response", began["hook_id"], 2)
    assert ended["outcome"] == "error" and ended["stderr"] == "not so\n"


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


async def test_a_subagents_conversation_is_beside_that_of_the_session_and_stays(host: Host) -> None:
    told: list[Any] = []

    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        told.append(given)
        return {}

    hooks: Any = {event: [sdk.HookMatcher(hooks=[hook])] for event in ("SubagentStop", "Stop")}
    await host.play(HELP, "go", agents=HELPER, hooks=hooks, allowed_tools=["Agent"])
    inner, outer = told
    assert inner["session_id"] == outer["session_id"] and inner["transcript_path"] == outer["transcript_path"]
    assert inner["prompt_id"] == outer["prompt_id"]
    lines = [json.loads(line) for line in Path(inner["agent_transcript_path"]).read_text().splitlines()]
    assert lines[0]["message"]["content"] == "look for it" and lines[-1]["type"] == "assistant"


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
