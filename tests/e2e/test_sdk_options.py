"""What the official claude-agent-sdk can ask for, each thing judged by what the model was sent or what was done."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest

from tests.agent.pixels import png
from tests.installed import TREADLE, treadle
from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer, Recorded
from treadle.wire.common.images import encoded

DONE = '[[reply]]\ntimes = "always"\ntext = "It is done."\nusage = { input = 30, output = 7, cache_read = 11 }\n'


def calling(name: str, **arguments: Any) -> str:
    given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments.items())
    return f'[[reply]]\ntext = "I call it."\n[[reply.call]]\nname = "{name}"\narguments = {{ {given} }}\n'


class Host:
    """A program that drives us through the SDK, with a scripted model behind us."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.server: ModelServer
        self.said: list[str] = []
        self.program = TREADLE

    async def play(self, script: str, *prompts: str, then: Any = None, **options: Any) -> list[Any]:
        """The messages that came for all prompts; `then` is called with the client while it is connected."""
        messages: list[Any] = []
        async with ModelServer(parse(script)) as self.server:
            env = {"TREADLE_MODEL": "chat:m", "TREADLE_BASE_URL": f"{self.server.url}/v1", "TREADLE_RETRY_SECONDS": "2"}
            more = {"cli_path": TREADLE, "cwd": self.work, "stderr": self.said.append, **options}
            more["env"] = {"TREADLE_HOME": os.environ["TREADLE_HOME"], **env, **more.get("env", {})}
            async with sdk.ClaudeSDKClient(sdk.ClaudeAgentOptions(**more)) as client:
                for prompt in prompts or ("go",):
                    await client.query(prompt)
                    messages += [message async for message in client.receive_response()]
                if then is not None:
                    await then(client, messages)
        return messages

    def sent(self, number: int = 0) -> dict[str, Any]:
        asked: Recorded = self.server.asked[number]
        body = asked.body
        return body if isinstance(body, dict) else json.loads(body)

    @property
    def offered(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.sent().get("tools", [])]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    work = tmp_path / "work"
    work.mkdir()
    yield Host(work)


def uses(messages: list[Any]) -> list[str]:
    blocks = [block for message in messages if isinstance(message, sdk.AssistantMessage) for block in message.content]
    return [block.name for block in blocks if isinstance(block, sdk.ToolUseBlock)]


def results(messages: list[Any]) -> list[str]:
    blocks = [
        block
        for message in messages
        if isinstance(message, sdk.UserMessage) and isinstance(message.content, list)
        for block in message.content
    ]
    return [str(block.content) for block in blocks if isinstance(block, sdk.ToolResultBlock)]


def hooked(event: str, answer: Any, **more: Any) -> dict[str, Any]:
    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return {"hooks": {event: [sdk.HookMatcher(hooks=[hook], **more)]}}


async def test_a_system_prompt_and_what_is_added_to_ours(host: Host) -> None:
    await host.play(DONE, system_prompt="You are a parrot.")
    assert host.sent()["messages"][0]["content"].startswith("You are a parrot.")
    preset = {"type": "preset", "preset": "claude_code", "append": "Speak in rhymes."}
    await host.play(DONE, system_prompt=preset)
    system = host.sent()["messages"][0]["content"]
    assert system.startswith("You are Treadle") and "Speak in rhymes." in system


async def test_only_the_tools_that_are_named_are_offered(host: Host) -> None:
    messages = await host.play(DONE, tools=["Read", "Grep"])
    assert host.offered == ["read_file", "grep"]
    assert messages[0].data["tools"] == ["Read", "Grep"], "by the names that the host knows"


async def test_subagents_of_the_host_work_with_their_own_prompt_and_tools(host: Host) -> None:
    reviewer = sdk.AgentDefinition(description="reviews code", prompt="You review.", tools=["Read"], model="inherit")
    script = calling("Agent", subagent_type="reviewer", prompt="look", description="a look") + DONE
    messages = await host.play(script, agents={"reviewer": reviewer})
    task = next(tool["function"] for tool in host.sent()["tools"] if tool["function"]["name"] == "task")
    assert "reviewer: reviews code" in task["description"]
    inner = host.sent(1)
    assert "You review." in inner["messages"][0]["content"]
    assert [tool["function"]["name"] for tool in inner["tools"]] == ["read_file"]
    assert results(messages) == ["It is done."] and uses(messages) == ["Agent"]


async def test_an_mcp_server_in_the_process_of_the_host(host: Host) -> None:
    called: list[dict[str, Any]] = []

    @sdk.tool("add", "Adds two numbers", {"a": int, "b": int})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        called.append(given)
        if given["a"] < 0:
            return {"content": [{"type": "text", "text": "no negatives"}], "is_error": True}
        picture = {"type": "image", "data": encoded(png()), "mimeType": "image/png"}
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}, picture]}

    server = sdk.create_sdk_mcp_server("calculator", tools=[add])
    script = calling("mcp__my_calc__add", a=2, b=3) + calling("mcp__my_calc__add", a=-1, b=3) + DONE

    async def then(client: Any, messages: list[Any]) -> None:
        [state] = (await client.get_mcp_status())["mcpServers"]
        assert (state["name"], state["status"], [tool["name"] for tool in state["tools"]]) == (
            "my calc",
            "connected",
            ["add"],
        )

        await client.toggle_mcp_server("my calc", enabled=False)
        [state] = (await client.get_mcp_status())["mcpServers"]
        assert (state["status"], state["tools"]) == ("disabled", [])

    messages = await host.play(script, then=then, mcp_servers={"my calc": server}, allowed_tools=["mcp__my_calc__add"])
    assert called == [{"a": 2, "b": 3}, {"a": -1, "b": 3}]
    shown, failed = results(messages)
    assert "5\\n[image 1:" in shown and encoded(png()) in shown and failed == "Error: no negatives"
    assert (
        encoded(png()) in json.dumps(host.sent(1))
        and failed == "Error: no negatives"
        and uses(messages) == ["mcp__my_calc__add"] * 2
    )
    assert messages[-1].result == "It is done."


def decided(decision: str, **more: Any) -> dict[str, Any]:
    """A hook before a tool that says this."""
    said = {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}
    return hooked("PreToolUse", {"hookSpecificOutput": said}, matcher="Write")


CHANGED = {"file_path": "made.txt", "content": "changed"}
FREE: dict[str, Any] = {"permission_mode": "bypassPermissions"}


@pytest.mark.parametrize(
    ("hook", "options", "made"),
    [
        (decided("allow", updatedInput=CHANGED), {}, "changed"),
        (decided("deny", permissionDecisionReason="not here"), FREE, None),
        (decided("allow"), {"disallowed_tools": ["Write(made.*)"]}, None),
        (hooked("PreToolUse", ValueError("broken")), FREE, None),
        (hooked("PreToolUse", {"decision": "block", "reason": "no"}, matcher="Bash|Edit"), FREE, "x"),
    ],
    ids=["changes", "denies", "allows what a rule forbids", "fails", "means another tool"],
)
async def test_a_hook_before_a_tool(host: Host, hook: Any, options: dict[str, Any], made: str | None) -> None:
    messages = await host.play(calling("write_file", file_path="made.txt", content="x") + DONE, **options, **hook)
    assert [path.read_text() for path in host.work.glob("made.txt")] == ([made] if made else [])
    assert messages[-1].result == "It is done." and bool(messages[-1].permission_denials) == (made is None)


async def test_a_rule_of_the_hosts_own_forbids_what_it_names_from_then_on(host: Host) -> None:
    asked: list[str] = []

    async def can_use_tool(name: str, given: dict[str, Any], context: Any) -> Any:
        asked.append(given["command"])
        rule = sdk.types.PermissionRuleValue(tool_name="Bash", rule_content="touch b*")
        update = sdk.PermissionUpdate(type="addRules", rules=[rule], behavior="deny", destination="session")
        return sdk.PermissionResultAllow(updated_permissions=[update])

    script = "".join(calling("Bash", command=command) for command in ("touch a", "touch b"))
    await host.play(script + DONE, can_use_tool=can_use_tool)
    assert asked == ["touch a"] and not (host.work / "b").exists()


async def test_files_go_back_to_what_they_were_before_a_prompt(host: Host) -> None:
    kept = host.work / "kept.txt"
    kept.write_text("before")
    script = (
        calling("Read", file_path="kept.txt")
        + calling("Write", file_path="kept.txt", content="after")
        + calling("Write", file_path="new.txt", content="new")
        + DONE
    )

    async def then(client: Any, messages: list[Any]) -> None:
        assert kept.read_text() == "after" and (host.work / "new.txt").exists()
        prompt = next(m for m in messages if isinstance(m, sdk.UserMessage) and m.content == "go")
        await client.rewind_files(prompt.uuid)

    await host.play(
        script,
        then=then,
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    assert kept.read_text() == "before" and not (host.work / "new.txt").exists()


async def test_a_prompt_that_nobody_typed_runs_no_command_and_reads_no_file(host: Host) -> None:
    (host.work / "secret.txt").write_text("the secret")
    said = await host.play(DONE, "/clear and look at @secret.txt", verbatim_prompts=True)
    assert said[-1].result == "It is done."
    [message] = [message for message in host.sent()["messages"] if message["role"] == "user"]
    assert message["content"] == "/clear and look at @secret.txt"


def add_skills(host: Host, *names: str) -> None:
    for name in names:
        place = host.work / ".claude" / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: how to {name}\n---\nDo it.\n")


async def test_only_the_skills_that_the_host_names_are_offered_and_can_be_run(host: Host) -> None:
    add_skills(host, "bake", "brew")
    [init, *_] = await host.play(DONE, "go", "/brew", skills=["bake"])
    system = host.sent()["messages"][0]["content"]
    assert "how to bake" in system and "how to brew" not in system
    assert init.data["skills"] == ["bake"] and "brew" not in init.data["slash_commands"]
    assert len(host.server.asked) == 1, "what is not offered cannot be run as a command either"


@pytest.mark.parametrize(
    ("sources", "found"), [(None, {"mine", "project"}), (["user"], {"mine"}), (["project"], {"project"}), ([], set())]
)
async def test_setting_sources_say_whose_words_and_rules_are_used(
    host: Host, sources: Any, found: set[str], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "AGENTS.md").write_text("Words that are mine.")
    (own / "config.toml").write_text('[permissions]\nallow = ["Bash(touch mine)"]\ndeny = ["Bash(touch never)"]\n')
    (host.work / "AGENTS.md").write_text("Words of the project.")
    script = "".join(calling("Bash", command=f"touch {name}") for name in ("mine", "never"))
    more = {"env": {"TREADLE_HOME": str(own)}}
    messages = await host.play(script + DONE, setting_sources=sources, permission_mode="bypassPermissions", **more)
    system = host.sent()["messages"][0]["content"]
    assert ("that are mine" in system, "of the project" in system) == ("mine" in found, "project" in found)
    assert messages[-1].result == "It is done." and not (host.work / "never").exists(), "a denial always holds"
    (host.work / "mine").unlink()
    await host.play(script + DONE, setting_sources=sources, permission_mode="default", **more)
    assert (host.work / "mine").exists() == ("mine" in found), "what the user's file allows is its own"


@pytest.mark.parametrize("more", [["--verbose"], ["--verbose", "--include-partial-messages"], []])
def test_every_line_of_stream_json_parses_as_a_message(host: Host, more: list[str]) -> None:
    from claude_agent_sdk._internal.message_parser import parse_message

    script = host.work.parent / "script.toml"
    script.write_text(calling("Write", file_path="made.txt", content="hello") + DONE)
    words = ("-p", "go", "--model", f"scripted:{script}", "--output-format", "stream-json")
    done = treadle(*words, *more, cwd=host.work)
    messages = [parse_message(json.loads(line)) for line in done.stdout.splitlines()]
    result = messages[-1]
    assert isinstance(result, sdk.ResultMessage)
    assert result.result == "It is done." and result.is_error is False and result.num_turns == 2
    assert result.permission_denials and all(message is not None for message in messages)
