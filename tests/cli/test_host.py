"""`treadle host` as a person types it, and what it shows of a run."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.checkouts import checkout
from tests.conftest import need
from tests.fleet.repositories import DONE, model, other_agents, write
from tests.fleet.repositories import says as model_says
from tests.installed import started, treadle
from tests.scripts import calls, says
from tests.stand_ins import bad_sidecar
from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.cli import host as commands
from treadle.cli.host import COMPLETE, FAILED, PARTIAL, _variable, exit_code, show_receipt
from treadle.redact import Redactor
from treadle.wire.sidecar import receipts


def command(act: str) -> str:
    return f"{sys.executable} {bad_sidecar.__file__} {act}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("one\n")
    return tmp_path / "source"


def test_an_order_from_start_to_applied_changes(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "receipt.json"
    done = treadle(
        *("host", "run", "--task", "make it", "--sidecar", command("good"), "--apply", "--out", str(out)),
        *("--verify", "test -f made.txt", "--events", str(tmp_path / "events.jsonl")),
        cwd=source,
    )
    assert done.returncode == 0, done.stderr
    assert "complete" in done.stdout and "applied to" in done.stdout and "'test -f made.txt' passed" in done.stdout
    assert (source / "made.txt").read_text() == "make it\n"
    assert treadle("receipt", "verify", str(out)).returncode == 0
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 4


def test_the_exit_code_is_that_of_the_outcome(source: Path) -> None:
    done = treadle("host", "run", "--task", "x", "--sidecar", command("exit_without_final"), "--json", cwd=source)
    receipt = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 1 and receipt["outcome"] == "failed"
    assert receipt["usage_raw"]["treadle"]["observed"]["end"]["exit_code"] == 3
    done = treadle("host", "run", "--task", "x", "--sidecar", command("good"), "--verify", "false", cwd=source)
    assert done.returncode == 3


def test_our_own_agent_does_an_order(source: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(calls("write_file", {"path": "made.txt", "content": "made"}) + says("Done."))
    done = treadle("host", "run", "--task", "make it", "--agent", "native", "--model", f"scripted:{script}", cwd=source)
    assert done.returncode == 0 and "A  made.txt" in done.stdout, done.stdout + done.stderr
    policy = tmp_path / "policy.json"
    policy.write_text('{"deny_write": ["made.*"]}')
    done = treadle(
        *("host", "run", "--task", "make it", "--agent", "native", "--model", f"scripted:{script}"),
        *("--policy", str(policy), "--json"),
        cwd=source,
    )
    receipt = json.loads(done.stdout.splitlines()[-1])
    assert receipt["verification"]["git_status"] == ""
    assert any(event.get("output") and "denied" in str(event["output"]) for event in receipt["trace"])


def test_the_order_carries_what_was_typed(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source / "task").write_text("from a file")
    done = treadle(
        *("host", "run", "--task", "@task", "--sidecar", command("good"), "--lane", "workspace-first", "--model", "m"),
        *("--param", "n=3", "--param", "a.b.c=1", "--param", "a.d=x y", "--param", "e=true", "--best-effort-policy"),
        *("--include", "*.md", "--exclude", "x", "--require", "streaming=native", "--max-turns", "9"),
        *("--max-budget-usd", "0.5", "--env", "A=b", "--json"),
        cwd=source,
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(treadle("receipt", "order", "latest").stdout)
    assert (made["task"], made["lane"], made["workspace"]["root"]) == ("from a file", "workspace_first", str(source))
    assert (made["workspace"]["include"], made["workspace"]["exclude"]) == (["*.md"], ["x"])
    assert made["requirements"]["required"] == [{"capability": "streaming", "min_support": "native"}]
    assert made["config"] == {
        "model": "m",
        "vendor": {"abp": {"best_effort_policy": True, "n": 3, "e": True}, "a": {"b": {"c": 1}, "d": "x y"}},
        "env": {"A": "[redacted]"},
        "max_turns": 9,
        "max_budget_usd": 0.5,
    }
    (source / "task").write_bytes(b"\xff")
    assert "--task @task: " in treadle("host", "run", "--task", "@task", "--sidecar", "x", cwd=source).stderr
    monkeypatch.setenv("MINE", "1")
    assert [_variable(text) for text in ("A=b=c", "A=", "MINE")] == [("A", "b=c"), ("A", ""), ("MINE", "1")]


def test_backends_and_probe(source: Path) -> None:
    (source / "backplane.toml").write_text('[backends.mine]\ntype = "sidecar"\ncommand = "true"\n')
    assert "not trusted" in treadle("host", "backends", cwd=source).stderr
    known = json.loads(treadle("host", "backends", "--config", "backplane.toml", "--json", cwd=source).stdout)
    assert set(known["backends"]) >= {"mine", "native"}
    probed = json.loads(treadle("host", "probe", "native", "--sidecar", command("exit_before_hello"), "--json").stdout)
    assert [each["ok"] for each in probed] == [True, False]
    assert treadle("host", "recover", "--json").stdout.strip() == "[]"


def test_a_failed_order_is_tried_again_and_then_given_to_another(source: Path, tmp_path: Path) -> None:
    plane = tmp_path / "backplane.toml"
    plane.write_text(
        f'[backends.good]\ntype = "sidecar"\ncommand = "{sys.executable}"\nargs = ["{bad_sidecar.__file__}", "good"]\n'
    )
    done = treadle(
        *("host", "run", "--task", "x", "--sidecar", command("killed"), "--retry", "1", "--fallback", "good"),
        *("--config", str(plane)),
        cwd=source,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("before: ") == 2 and done.stderr.count("treadle: run ") == 3


def test_another_agent_goes_on_in_the_files_of_the_first_with_its_own_model(source: Path, tmp_path: Path) -> None:
    first, limit = model_says("I keep the names.", write("half.txt", "half")), model_says("", error={"status": 400})
    begins = model(tmp_path, first, limit)
    rest = model_says("", write("rest.txt", "rest"), when="(?s)take over a task from native.*keep the names", turn=1)
    other_agents(other=model(tmp_path, rest, DONE, name="other"))
    run = ("host", "run", "--task", "x", "--agent", "native", "--model", begins, "--fallback")
    done = treadle(*run, "other", "--no-sandbox", "--apply", cwd=source)
    assert done.returncode == 0, done.stderr
    assert (source / "half.txt").read_text() + (source / "rest.txt").read_text() == "halfrest"
    assert "\n  task: x\n" in done.stdout and "  before: native failed: " in done.stdout and "400" in done.stdout
    assert "there is no backend 'nobody'" in treadle(*run, "nobody", cwd=source).stderr


@pytest.mark.slow
def test_a_run_is_seen_watched_and_cancelled_from_another_terminal(source: Path) -> None:
    process = started("host", "run", "--task", "600", "--sidecar", command("works_for_a_while"), cwd=source)
    assert process.stderr
    run_id = process.stderr.readline().split()[2]
    assert process.stderr.readline() == "working\n"
    (row,) = json.loads(treadle("host", "ps", "--json").stdout)
    assert row["run_id"] == run_id and row["alive"] and "works_for_a_while" not in row["task"]
    watching = started("host", "watch", run_id)
    assert watching.stderr and watching.stderr.readline() == "working\n"
    cancelled = treadle("host", "cancel", run_id, "--reason", "not needed")
    assert cancelled.returncode == 0 and "not needed" in cancelled.stdout
    shown, _ = watching.communicate(timeout=60)
    assert "not needed" in shown
    process.communicate(timeout=60)
    assert watching.returncode == process.returncode == 3
    assert treadle("host", "ps").stdout == "" and "no running run" in treadle("host", "watch", run_id).stderr


@pytest.mark.slow
def test_a_sidecar_of_ours_is_confined_as_its_receipt_says(tmp_path: Path) -> None:
    need("bwrap")
    top, outside = checkout(tmp_path / "repo"), tmp_path / "outside"
    outside.mkdir()
    script = tmp_path / "script.toml"
    (top / "go.sh").write_text(f"echo 1 > {outside}/x; echo two > file.txt")
    script.write_text(calls("bash", {"command": "sh go.sh"}) + says("Done."))
    words = ("host", "run", "--backend", "native", "--model", f"scripted:{script}", "--task", "two")
    shown = treadle(*words, cwd=top).stdout
    assert (
        list(outside.iterdir()) == []
        and "confined by bubblewrap: only the agent's commands, network of commands off" in shown
    )
    words = (*words, "--no-sandbox")
    assert "not sealed: confined by nothing" in treadle(*words, cwd=top).stdout and (outside / "x").exists()


def receipt(outcome: Any, workspace: Any = None) -> Any:
    more = {"treadle": {"workspace": workspace}} if workspace is not None else {}
    return replace(SAMPLE_RECEIPT, outcome=outcome, usage_raw=more)


@pytest.mark.parametrize(
    ("outcome", "workspace", "code"),
    [
        ("complete", None, COMPLETE),
        ("partial", None, PARTIAL),
        ("failed", None, FAILED),
        ("complete", {"apply": False}, COMPLETE),
        ("complete", {"apply": True, "applied": {"conflicts": []}}, COMPLETE),
        ("complete", {"apply": True, "applied": {"conflicts": [{"path": "a", "reason": "x"}]}}, FAILED),
        ("complete", {"apply": True, "applied": None}, FAILED),
        ("complete", {"apply": True}, FAILED),
        ("partial", {"apply": True}, PARTIAL),
    ],
)
def test_the_exit_code_is_as_the_receipt_says_and_not_0_when_nothing_was_applied(
    outcome: str, workspace: Any, code: int
) -> None:
    assert exit_code(receipt(outcome, workspace)) == code


def test_what_an_agent_said_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    events = [
        replace(event, **{name: evil}) for event in SAMPLE_RECEIPT.trace for name in ("text",) if hasattr(event, name)
    ]
    assert events, "the sample has words"
    commands.show_events(events)
    assert "\x1b" not in capsys.readouterr().out


PLACE = {
    "source": "/src",
    "mode": "staged",
    "sealed": True,
    "confined_by": "landlock",
    "branch": "b",
    "result_commit": "c" * 40,
    "kept": "/work",
    "applied": {"conflicts": [], "written": ["a"], "deleted": [], "before": "1" * 40, "after": None},
}
WALLS = {"method": "bubblewrap", "covers": "commands", "hosts": ["a.example"], "network": "off", "cannot": ["limit"]}


def shown(capsys: pytest.CaptureFixture[str], more: dict[str, Any], status: str = " M a", **fields: Any) -> list[str]:
    verification = replace(SAMPLE_RECEIPT.verification, git_status=status)
    show_receipt(replace(SAMPLE_RECEIPT, verification=verification, usage_raw={"treadle": more}, **fields), "/r")
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"workspace": {**PLACE, "sealed": False}}, "  not sealed: confined by landlock, in mode staged"),
        ({"workspace": {**PLACE, "confined_by": None}}, "  confined by nothing, in mode staged"),
        (
            {"workspace": PLACE, "confinement": {**WALLS, "hosts": [], "covers": "sidecar"}},
            "  confined by bubblewrap: the whole sidecar, network off, mode staged",
        ),
        (
            {"workspace": PLACE, "confinement": {**WALLS, "network": "off for commands"}},
            "  confined by bubblewrap: only the agent's commands, network of commands only to a.example, mode staged",
        ),
        (
            {"workspace": PLACE, "confinement": {**WALLS, "network": "on"}},
            "  confined by bubblewrap: only the agent's commands, network on, mode staged",
        ),
        (
            {"workspace": {**PLACE, "applied": {"conflicts": [{"path": "a", "reason": "both"}]}}},
            "  not applied, as these conflict:",
        ),
        ({"observed": {"check": {"command": "false", "exit_code": 1, "ok": False}}}, "  verified: 'false' failed"),
        ({"policy": {"rules": {"deny": ["x"]}}}, "  policy: not applied: it did not begin"),
        (
            {"policy": {"rules": {"deny": ["x"]}, "lists": {"read": "kernel", "write": "guard", "run": "kernel"}}},
            "  policy: enforced by the kernel: read, run; asked before each act: write",
        ),
    ],
)
def test_what_was_enforced_and_applied_is_said_as_it_was(
    more: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in shown(capsys, more)


def test_events_are_printed_as_json_without_secrets_also_those_that_are_cut_in_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = commands.PrintedEvents(Redactor(["correct-horse-battery"]))
    at = SAMPLE_RECEIPT.trace[0].ts
    printed([receipts.AssistantSaid(ts=at, text="it is correct-horse-battery")])
    [line] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["type"], line["text"]) == ("assistant_message", "it is [redacted]")
    printed([receipts.AssistantDelta(ts=at, text=text) for text in ("correct-", "horse-battery", " and on")])
    printed.end()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "".join(line["text"] for line in lines) == "[redacted] and on"
