"""`treadle host` as a person types it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.agent.checkouts import checkout
from tests.conftest import need
from tests.installed import started, treadle
from tests.scripts import calls, says
from treadle.cli.host import _backend, _check_place, _fallback, _order, _variable, _vendor, host
from treadle.errors import ConfigError, NotFound
from treadle.host import backends
from treadle.host.job import runs_directory
from treadle.host.order import merged
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


@pytest.mark.slow
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
    assert treadle("host", "ps").stdout == "" and "no run under way" in treadle("host", "watch", run_id).stderr


def test_our_own_agent_commits_in_a_worktree_of_an_order(tmp_path: Path) -> None:
    top = checkout(tmp_path / "repo")
    script = tmp_path / "script.toml"
    script.write_text(calls("bash", {"command": "echo two > file.txt && git commit -qam two"}) + says("Done."))
    words = ("host", "run", "--agent", "native", "--model", f"scripted:{script}", "--task", "two")
    done = treadle(*words, "--workspace-mode", "worktree", "--apply", cwd=top)
    assert done.returncode == 0 and "complete" in done.stdout, done.stdout + done.stderr
    assert (top / "file.txt").read_text() == "two\n"


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


ORDER: dict[str, Any] = {
    **{"task": "do it", "root": ".", "lane": "workspace-first", "include": ("*.md",), "exclude": ("x",)},
    **{"context": (), "require": (), "model": "m", "env": ("A=b",), "param": ("n=3",), "best_effort_policy": True},
    **{"max_turns": 9, "max_budget_usd": 0.5},
}


def test_an_order_has_what_was_typed(tmp_path: Path) -> None:
    made = _order({**ORDER, "root": str(tmp_path)}, merged([]))
    assert (made.task, made.lane, made.config.model, made.config.env) == ("do it", "workspace_first", "m", {"A": "b"})
    assert made.config.vendor == {"abp": {"best_effort_policy": True, "n": 3}}
    assert (list(made.workspace.include), list(made.workspace.exclude)) == (["*.md"], ["x"])
    assert (made.config.max_turns, made.config.max_budget_usd) == (9, 0.5)
    (tmp_path / "task").write_text("from a file")
    assert _order({**ORDER, "task": f"@{tmp_path / 'task'}"}, merged([])).task == "from a file"
    (tmp_path / "task").write_bytes(b"\xff")
    for wrong in ("task", "gone"):
        with pytest.raises(ConfigError, match=f"--task @{tmp_path / wrong}: "):
            _order({**ORDER, "task": f"@{tmp_path / wrong}"}, merged([]))


def test_variables_and_settings_of_a_vendor_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    assert [_variable(text) for text in ("A=b=c", "A=", "MINE")] == [("A", "b=c"), ("A", ""), ("MINE", "1")]
    with pytest.raises(ConfigError, match="--env NONE: there is no such variable here") as missing:
        _variable("NONE")
    assert "--env NONE=VALUE" in str(missing.value)
    assert _vendor(("a.b.c=1", "a.d=x y", "e=true")) == {"a": {"b": {"c": 1}, "d": "x y"}, "abp": {"e": True}}
    assert _vendor(()) == {} and _vendor((), best_effort=True) == {"abp": {"best_effort_policy": True}}
    for wrong in ("a", "=1"):
        with pytest.raises(ConfigError, match="is not KEY=VALUE"):
            _vendor((wrong,))


def test_a_file_to_be_written_must_have_a_place(tmp_path: Path) -> None:
    _check_place("out", None)
    _check_place("out", str(tmp_path / "new"))
    with pytest.raises(ConfigError, match=f"--out: {tmp_path} is a directory"):
        _check_place("out", str(tmp_path))
    with pytest.raises(ConfigError, match="is in a directory that does not exist"):
        _check_place("events", str(tmp_path / "no" / "new"))


async def test_who_does_it_is_named_once(tmp_path: Path) -> None:
    known, order = backends.find_backends(None), _order({**ORDER, "root": str(tmp_path)}, merged([]))
    nothing = {"sidecar": None, "agent": None, "backend": None}

    async def named(**options: str) -> Any:
        return await _backend({**nothing, **options}, known, order)

    assert (await named(sidecar="cat -n")).argv == ("cat", "-n")
    assert (await named(agent="native")).name == "native" and (await named(backend="native")).name == "native"
    with pytest.raises(ConfigError, match="--agent and --backend both name a sidecar"):
        await named(agent="native", backend="native")
    assert _fallback("native", known).name == "native"
    with pytest.raises((NotFound, ConfigError)):
        _fallback("no-such", known)


def test_what_is_kept_is_listed_and_only_what_one_beginning_names_is_discarded() -> None:
    for name in ("aa1", "aa2"):
        folder = Path(runs_directory()) / name
        folder.mkdir(parents=True)
        (folder / "patch.diff").write_text("")
    listed = CliRunner().invoke(host, ["kept"]).output.splitlines()
    assert [line.split()[0] for line in listed] == ["aa1", "aa2"] and "patch.diff" in listed[0]
    assert "(of " not in listed[0]
    for wrong, said in (("aa", "2 kept runs begin with 'aa'"), ("b", "0 kept runs begin with 'b'")):
        refused = CliRunner().invoke(host, ["discard", wrong])
        assert isinstance(refused.exception, NotFound) and said in str(refused.exception)
    assert CliRunner().invoke(host, ["discard", "aa1"]).output == "discarded aa1\n"
    assert [run["run_id"] for run in json.loads(CliRunner().invoke(host, ["kept", "--json"]).output)] == ["aa2"]
    assert CliRunner().invoke(host, ["recover", "--json"]).output == "[]\n"
    assert CliRunner().invoke(host, ["recover"]).output == CliRunner().invoke(host, ["ps"]).output == ""
    for words in (
        ["--timeout", "0"],
        ["--max-turns", "0"],
        ["--retry", "-1"],
        ["--max-budget-usd", "0"],
        ["--root", "/no"],
    ):
        assert CliRunner().invoke(host, ["run", "--task", "x", *words]).exit_code == 2, words
    for words in (["--policy", "/no"], ["--policy", "/"], ["--config", "/no"], ["--root", __file__]):
        assert CliRunner().invoke(host, ["run", "--task", "x", *words]).exit_code == 2, words
    assert CliRunner().invoke(host, ["run"]).exit_code == CliRunner().invoke(host, ["discard"]).exit_code == 2
