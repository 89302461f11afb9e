"""No field that a client sends is ignored in silence: each has a verdict, and what nobody reads is named."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests import schemas
from tests.doors.codex.callers import opened, said
from tests.stand_ins.sessions import ScriptedAgent
from treadle.cli.serving import warner
from treadle.doors.fields import FieldTable
from treadle.io.rpc import CallFailed
from treadle.wire.common.jsonrpc import Fault

PROTOCOLS = ("acp", "a2a", "claude", "codex", "mcp", "worker")

HEDDLE = """
pub struct Run {
    pub r#mode: Option<String>,
}
pub struct InitConfig {
    #[serde(default)]
    pub model: String,
    pub runs: Option<Vec<Run>>,
}
pub enum IpcRequest {
    Init {
        id: String,
        config: Box<InitConfig>,
    },
    Cancel {
        id: String,
        target_id: String,
    },
}
"""


@pytest.mark.parametrize("published", [schemas.acp, schemas.mcp, schemas.claude])
def test_every_field_of_the_installed_schema_has_a_verdict(published: Any) -> None:
    assert schemas.unjudged(published.__name__, published()) == []


def test_a_field_that_no_table_knows_fails_the_check() -> None:
    newer = {"session/new": {"cwd", "mcpServers[].name", "mcpServers[].secretStore", "sandbox"}, "nes/start": {"x"}}
    assert schemas.unjudged("acp", newer) == ["acp session/new mcpServers[].secretStore", "acp session/new sandbox"]


def test_the_requests_of_a_worker_are_read_from_the_types_of_heddles_source(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "types.rs").write_text(HEDDLE)
    found = schemas.heddle(str(tmp_path))
    assert found == {
        "init": {"type", "id", "config", "config.model", "config.runs", "config.runs[].mode"},
        "cancel": {"type", "id", "target_id"},
    }
    assert schemas.unjudged("worker", found) == ["worker init config.runs", "worker init config.runs[].mode"]


def sent(path: str) -> dict[str, Any]:
    """Parameters with something at this path."""
    value: Any = {"x": "y"}
    for part in reversed(path.split(".")):
        name, deep = part.removesuffix("[]"), part.count("[]")
        value = {name: [value] if deep else value}
    return value  # type: ignore[no-any-return]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fields_of_a_newer_schema_drawn_at_random_are_never_silent(protocol: str) -> None:
    table, chance = FieldTable(protocol, -1), random.Random(54)
    for number in range(60):
        method = chance.choice(sorted(table.methods))
        used = [path for path, (verdict, _) in table._methods[method].items() if verdict == "used"]
        inside = chance.choice([*(f"{path}." for path in used), ""])
        path = f"{inside}newField{number}"
        try:
            assert table.judge(method, sent(path)) == [path]
        except Fault as refused:
            assert refused.message


def test_a_refused_field_says_why_and_one_that_asks_for_nothing_is_not_named() -> None:
    table = FieldTable("mcp", -7)
    with pytest.raises(Fault, match="task: calls as tasks are not offered here") as refused:
        table.judge("tools/call", {"name": "run", "task": {"ttl": 1}})
    assert refused.value.code == -7
    assert table.judge("tools/call", {"name": "run", "task": None, "other": False, "arguments": {"x": 1}}) == []
    assert table.judge("no/such/method", {"x": 1}) == []
    assert FieldTable("acp", -7).judge("session/prompt", {"prompt": [{"odd": 1}, {"odd": 2}]}) == ["prompt[].odd"]


def test_the_name_of_a_field_does_not_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    [name] = FieldTable("a2a", -7).judge("SendMessage", {"\x1b[2J\ntreadle a2a: all is well": 1})
    warner("treadle a2a")(name)
    shown = capsys.readouterr().err
    assert "\x1b" not in shown and shown.count("\n") == 1 and "all is well" in shown


async def test_a_client_of_codex_is_told_of_what_nobody_reads_once(tmp_path: Path) -> None:
    async with opened(ScriptedAgent(), tmp_path) as client:
        thread = await client.thread(tmp_path)
        for _ in range(2):
            await client.call("thread/turns/list", threadId=thread, limit=1)
        assert (await client.until("warning"))["message"] == "not used here: limit"
        with pytest.raises(CallFailed, match="threads are not in projects here"):
            await client.call("thread/list", projectId="p")
        await client.call("turn/start", threadId=thread, input=said("x"))
    assert client.names().count("warning") == 1
