"""MCP servers that a session is given: what of them a driven agent gets, and what it is told when it gets none."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.notes_server import SAID
from tests.drivers.scenarios import DONE, Scenario, go_through
from tests.drivers.test_session import HERE, RECORDED, replayed
from treadle.drivers.card import Card
from treadle.drivers.confined import addresses, in_a_file, programs, settled_servers
from treadle.errors import ConfigError
from treadle.events import Asked, ToolDenied, ToolEnded
from treadle.session import Answer, Rules, SessionSpec, Toolset

NOTES = {"command": "notes", "args": ["log"], "env": {"KEY": "${WANTED}"}}
REMOTE = {"url": "https://example.com/${WANTED:-nothing}", "headers": {"Authorization": "Bearer ${TOKEN}"}}


def given(*, alone: bool = False, cwd: str = "/", **servers: Any) -> SessionSpec:
    return SessionSpec(cwd=cwd, mode="full-auto", tools=Toolset(servers=servers, only_servers=alone))


def test_what_stands_for_a_variable_is_filled_in_by_us() -> None:
    spec = settled_servers(given(notes=NOTES, remote=REMOTE), {"WANTED": "w", "TOKEN": "t"})
    assert spec.tools.servers["notes"] == {"command": "notes", "args": ("log",), "env": {"KEY": "w"}}
    assert spec.tools.servers["remote"] == {"url": "https://example.com/w", "headers": {"Authorization": "Bearer t"}}
    assert programs(spec) == [["notes", "log"]]


def test_a_file_of_servers_is_for_this_user_and_gone_when_the_agent_has_started(tmp_path: Path) -> None:
    spec = settled_servers(given(cwd=str(tmp_path), notes=NOTES), {"WANTED": "s3cret"})
    with in_a_file(spec, "--servers=@{file}") as (seen, words):
        assert "s3cret" not in words[0] and words[0].startswith("--servers=@/")
        path = words[0].partition("@")[2]
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and path in seen.confinement.read_only
        assert json.loads(Path(path).read_text())["mcpServers"]["notes"]["env"] == {"KEY": "s3cret"}
    assert not os.path.exists(path)
    with in_a_file(spec, "") as (same, none):
        assert same is spec and none == []


SERVED = [card for card in RECORDED.values() if (HERE / card.name / "recordings" / "served.jsonl").exists()]
PLAYED = Scenario("served", ("[[recall]]",), lambda played: None)


@pytest.mark.parametrize("card", SERVED, ids=lambda card: card.name)
async def test_a_tool_of_a_given_server_is_judged_and_told_as_any_other(card: Card, tmp_path: Path) -> None:
    session = await replayed(card, "served").open(given(cwd=str(tmp_path), notes=NOTES))
    try:
        played = await go_through(session, PLAYED)
    finally:
        await session.close()
    assert [(event.name, event.ok, SAID in event.result) for event in played.of(ToolEnded)] == [
        ("mcp__notes__recall", True, True)
    ]
    assert played.ends[0].text == DONE and not played.of(Asked)


@pytest.mark.parametrize("card", SERVED, ids=lambda card: card.name)
async def test_a_rule_can_forbid_a_tool_of_a_server(card: Card, tmp_path: Path) -> None:
    rules = Rules(deny=("mcp__notes__recall",))
    spec = SessionSpec(cwd=str(tmp_path), mode="full-auto", rules=rules, tools=Toolset(servers={"notes": NOTES}))
    session = await replayed(card, "served").open(spec)
    try:
        played = await go_through(session, PLAYED._replace(answer=Answer(decision="allow")))
    finally:
        await session.close()
    assert [(event.name, event.by) for event in played.of(ToolDenied)] == [("mcp__notes__recall", "rule")]


def test_what_is_started_and_what_is_connected_to_are_told_apart() -> None:
    spec = settled_servers(given(notes={"command": "notes"}, remote=REMOTE), {"TOKEN": "t"})
    assert programs(spec) == [["notes"]] and addresses(spec) == ["https://example.com/nothing"]
    with in_a_file(spec, "--f {file}") as (_, words):
        entries = json.loads(Path(words[0].removeprefix("--f ")).read_text())["mcpServers"]
    assert (entries["notes"]["type"], entries["remote"]["type"]) == ("stdio", "http")
    bare = given()
    assert settled_servers(bare, {}) is bare
    with in_a_file(bare, "--f {file}") as (same, none):
        assert same is bare and none == []
    with pytest.raises(ConfigError) as wrong:
        settled_servers(given(odd={}), {})
    assert '"command"' in (wrong.value.hint or "")
