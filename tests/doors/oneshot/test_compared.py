"""Our stream-json against what four other agents print, field by field. The table in the docs is made from this.

The recordings are of real runs of the same task (one tool call, a scripted model). `UPDATE_DOCS=1` rewrites the table.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.installed import treadle
from tests.scripts import calls, says

RECORDINGS = Path(__file__).parent / "recordings"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "one-shot.md"
BEGIN, END = "<!-- compared: begin -->\n", "<!-- compared: end -->"
AGENTS = ("treadle", "claude", "codex", "gemini", "opencode")

ROWS: dict[str, dict[str, str | None]] = {
    "session id": {
        "treadle": "result.session_id",
        "claude": "result.session_id",
        "codex": "thread.started.thread_id",
        "gemini": "init.session_id",
        "opencode": "text.sessionID",
    },
    "text as it comes": {
        "treadle": "stream_event.event.delta.text",
        "claude": "stream_event.event.delta.text",
        "codex": None,
        "gemini": "message.delta",
        "opencode": None,
    },
    "whole messages": {
        "treadle": "assistant.message.content",
        "claude": "assistant.message.content",
        "codex": "item.completed.item.text",
        "gemini": None,
        "opencode": "text.part.text",
    },
    "a tool call": {
        "treadle": "assistant.message.content",
        "claude": "assistant.message.content",
        "codex": "item.started.item.command",
        "gemini": "tool_use.parameters",
        "opencode": "tool_use.part.state.input",
    },
    "its result": {
        "treadle": "user.message.content",
        "claude": "user.message.content",
        "codex": "item.completed.item.aggregated_output",
        "gemini": "tool_result.output",
        "opencode": "tool_use.part.state.output",
    },
    "the final answer in one field": {
        "treadle": "result.result",
        "claude": "result.result",
        "codex": None,
        "gemini": None,
        "opencode": None,
    },
    "did it fail?": {
        "treadle": "result.is_error",
        "claude": "result.is_error",
        "codex": None,
        "gemini": "result.status",
        "opencode": None,
    },
    "outcome": {
        "treadle": "result.subtype",
        "claude": "result.subtype",
        "codex": None,
        "gemini": "result.status",
        "opencode": "step_finish.part.reason",
    },
    "why it ended": {
        "treadle": "result.terminal_reason",
        "claude": "result.terminal_reason",
        "codex": None,
        "gemini": None,
        "opencode": None,
    },
    "tokens in": {
        "treadle": "result.usage.input_tokens",
        "claude": "result.usage.input_tokens",
        "codex": "turn.completed.usage.input_tokens",
        "gemini": "result.stats.input_tokens",
        "opencode": "step_finish.part.tokens.input",
    },
    "tokens from a cache": {
        "treadle": "result.usage.cache_read_input_tokens",
        "claude": "result.usage.cache_read_input_tokens",
        "codex": "turn.completed.usage.cached_input_tokens",
        "gemini": "result.stats.cached",
        "opencode": "step_finish.part.tokens.cache.read",
    },
    "cost": {
        "treadle": "result.total_cost_usd",
        "claude": "result.total_cost_usd",
        "codex": None,
        "gemini": None,
        "opencode": "step_finish.part.cost",
    },
    "time taken": {
        "treadle": "result.duration_ms",
        "claude": "result.duration_ms",
        "codex": None,
        "gemini": "result.stats.duration_ms",
        "opencode": None,
    },
    "what was refused": {
        "treadle": "result.permission_denials",
        "claude": "result.permission_denials",
        "codex": None,
        "gemini": None,
        "opencode": None,
    },
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    place = tmp_path_factory.mktemp("compared")
    (place / "script.toml").write_text(
        calls("bash", {"command": "echo out"}, text="Let me run that.", usage={"input": 5, "output": 5})
        + says("All done.", usage={"input": 9, "output": 5})
    )
    command = ["-p", "run it", "--model", f"scripted:{place / 'script.toml'}", "--permission-mode", "full-auto"]
    env = {**os.environ, "TREADLE_HOME": str(place / "state")}
    ours = treadle(*command, "--output-format", "stream-json", "--verbose", cwd=place, env=env, check=True).stdout
    texts = {"treadle": ours} | {name: (RECORDINGS / f"{name}.jsonl").read_text() for name in AGENTS[1:]}
    return {name: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}


def has(records: list[dict[str, Any]], path: str) -> bool:
    for record in records:
        kind = str(record["type"])
        if path.startswith(kind + "."):
            here: Any = record
            for key in path[len(kind) + 1 :].split("."):
                if not isinstance(here, dict) or key not in here:
                    break
                here = here[key]
            else:
                return True
    return False


@pytest.mark.parametrize("agent", AGENTS)
def test_every_path_in_the_table_is_in_the_recording(agent: str, recorded: dict[str, list[dict[str, Any]]]) -> None:
    for what, paths in ROWS.items():
        path = paths[agent]
        assert path is None or has(recorded[agent], path), f"{agent} has no {path} for {what}"


def test_the_table_in_the_docs_is_this_table() -> None:
    rows = [f"| | {' | '.join(AGENTS)} |", "|---" * (len(AGENTS) + 1) + "|"]
    for what, paths in ROWS.items():
        cells = [f"`{paths[agent]}`" if paths[agent] else "-" for agent in AGENTS]
        rows.append(f"| {what} | {' | '.join(cells)} |")
    table = "\n".join(rows) + "\n"
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    shown, after = rest.split(END)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(before + BEGIN + table + END + after)
        return
    assert shown == table
