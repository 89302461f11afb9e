"""`treadle host` as a person types it."""

import json
import sys
from pathlib import Path

import pytest

from tests.agent.checkouts import checkout
from tests.conftest import need
from tests.installed import started, treadle
from tests.scripts import calls, says
from treadle.io.sandbox import methods
from treadle.testing import bad_sidecar

ROOT = Path(__file__).parent.parent.parent


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
    assert treadle("host", "validate", str(out)).returncode == 0
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 4


def test_the_exit_code_is_that_of_the_outcome(source: Path) -> None:
    done = treadle("host", "run", "--task", "x", "--sidecar", command("exit_without_final"), "--json", cwd=source)
    receipt = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 1 and receipt["outcome"] == "failed"
    assert receipt["usage_raw"]["treadle"]["end"]["exit_code"] == 3
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


def test_our_own_agent_can_be_confined_to_its_workspace(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # temporary files may be written
    out = tmp_path / "outside.txt"
    script = tmp_path / "script.toml"
    tried = f'echo in > inside.txt; python3 -c \'open("{out}", "w")\'; true'
    script.write_text(calls("bash", {"command": tried}) + says("Done."))
    done = treadle(
        *("host", "run", "--task", "x", "--agent", "native", "--sandbox", "--model", f"scripted:{script}"), cwd=source
    )
    if methods.available().method is None:  # nothing to confine it with: it must not run
        assert done.returncode and "--sandbox cannot be enforced" in done.stdout, done.stdout + done.stderr
    else:
        assert done.returncode == 0 and "A  inside.txt" in done.stdout, done.stdout + done.stderr
    assert not out.exists()


def test_the_order_carries_what_was_typed(source: Path) -> None:
    done = treadle(
        *(
            "host",
            "run",
            "--task",
            "x",
            "--sidecar",
            command("good"),
            "--param",
            "abp.mode=passthrough",
            "--param",
            "n=3",
        ),
        *("--env", "A=b", "--include", "*.md", "--require", "streaming=native", "--max-turns", "9", "--json"),
        cwd=source,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sidecar", "x", "--agent", "native"], "both name a sidecar"),
        (["--backend", "nobody"], "there is no backend"),
        (["--sidecar", "/no/such", "--require", "telepathy"], "no capability"),
        (["--sidecar", "x", "--env", "NO_SUCH_VARIABLE"], "no such variable"),
        (["--sidecar", "x", "--param", "novalue"], "KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(source: Path, arguments: list[str], says: str) -> None:
    done = treadle("host", "run", "--task", "x", *arguments, cwd=source)
    assert done.returncode == 1 and says in done.stderr and "Traceback" not in done.stderr


def test_backends_and_probe(source: Path) -> None:
    (source / "backplane.toml").write_text('[backends.mine]\ntype = "sidecar"\ncommand = "true"\n')
    assert "not trusted" in treadle("host", "backends", cwd=source).stderr
    known = json.loads(treadle("host", "backends", "--config", "backplane.toml", "--json", cwd=source).stdout)
    assert set(known["backends"]) >= {"mine", "native"}
    probed = json.loads(treadle("host", "probe", "native", "--sidecar", command("exit_before_hello"), "--json").stdout)
    assert [each["ok"] for each in probed] == [True, False]
    assert treadle("host", "recover", "--json").stdout.strip() == "[]"


def test_work_that_is_kept_can_be_found_and_discarded(source: Path) -> None:
    treadle("host", "run", "--task", "x", "--sidecar", command("good"), cwd=source)
    (run_id,) = [run["run_id"] for run in json.loads(treadle("host", "kept", "--json").stdout)]
    assert run_id in treadle("host", "kept").stdout
    assert treadle("host", "discard", "nothing").returncode == 1
    assert treadle("host", "discard", run_id[:8]).returncode == 0
    assert json.loads(treadle("host", "kept", "--json").stdout) == []


def test_any_sidecar_is_an_agent_for_a_prompt(source: Path) -> None:
    done = treadle("-p", "do it", "--agent", f"sidecar:{command('good')}", cwd=source)
    assert done.returncode == 0 and "done" in done.stdout, done.stderr
    assert (source / "made.txt").read_text() == "do it\n"


def test_events_are_streamed_as_json_with_the_run_first_and_the_receipt_last(source: Path) -> None:
    done = treadle("host", "run", "--task", "x", "--sidecar", command("good"), "--json", cwd=source)
    first, *events, receipt = map(json.loads, done.stdout.splitlines())
    assert first["type"] == "run" and receipt["meta"]["run_id"] == first["run_id"]
    assert [event["type"] for event in events] == [event["type"] for event in receipt["trace"]] and len(events) == 4


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
    assert treadle("host", "ps").stdout == "" and "no run under way" in treadle("host", "watch", run_id).stderr


def test_our_own_agent_commits_in_a_worktree_of_an_order(tmp_path: Path) -> None:
    top = checkout(tmp_path / "repo")
    script = tmp_path / "script.toml"
    script.write_text(calls("bash", {"command": "echo two > file.txt && git commit -qam two"}) + says("Done."))
    words = ("host", "run", "--agent", "native", "--model", f"scripted:{script}", "--task", "two")
    done = treadle(*words, "--workspace-mode", "worktree", "--apply", cwd=top)
    assert done.returncode == 0 and "complete" in done.stdout, done.stdout + done.stderr
    assert (top / "file.txt").read_text() == "two\n"


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
