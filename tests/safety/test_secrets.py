"""Keys and what belongs to others: out of reach, out of what is written, out of what runs."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.agent.test_project import knowledge
from tests.io.sandbox.rooms import repository
from treadle.coordination import changes
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
from treadle.host.event_file import EventFile, encode_events
from treadle.receipts.trace import join_deltas
from treadle.redact import MARK, Redactor
from treadle.settings import config, project, trust
from treadle.wire.sidecar.receipts import AnyAgentEvent, AssistantDelta, RunCompleted, RunStarted
from treadle.workspace import git as workspace_git
from treadle.workspace import uncommitted
from treadle.workspace.user_repository import UserRepository
from treadle.workspace.workspace import prepare

SHAPES = {
    "url": "postgres://me:hunter2hunter2@db.example.com/x",
    "query": "https://a.b/c?access_token=abcdef123456&d=e",
    "aws": "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    "stripe": "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "google": "ya29.a0AfH6SMBx-abcdefghijklmnop",
    "vault": "hvs.CAESIJ1234567890abcdefghij",
    "api": "api_key=abcdef1234567890",
    "password": "password: correct-horse-battery",
    "echoed": '{"error":"invalid key","password":"correct-horse-battery"}',
}
SECRETS = (
    *("hunter2hunter2", "abcdef123456", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "4eC39HqLyjWDarjtT1zdp7dc"),
    *("a0AfH6SMBx-abcdefghijklmnop", "CAESIJ1234567890abcdefghij", "abcdef1234567890", "correct-horse-battery"),
)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_secret_said_in_pieces_is_still_one(name: str, size: int) -> None:
    text = f"before {SHAPES[name]} after\n"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    joined = "".join(Redactor().pieces(pieces))
    assert MARK in joined and "before" in joined and "after" in joined
    assert not any(secret in joined for secret in SECRETS)


def test_no_receipt_and_no_file_of_events_keeps_a_key_that_came_in_pieces(tmp_path: Path) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    ts = "2026-01-01T00:00:00Z"
    deltas = [AssistantDelta(ts=ts, text=key[at : at + 4]) for at in range(0, len(key), 4)]
    events: list[AnyAgentEvent] = [RunStarted(ts=ts, message=""), *deltas, RunCompleted(ts=ts, message="")]
    told = EventFile(str(tmp_path / "events.jsonl"), Redactor())
    for event in events:
        told.write([event], encode_events([event]))
    told.close()
    written = [msgspec.json.decode(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert "".join(event.get("text", "") for event in written) == MARK
    trace = [msgspec.to_builtins(event) for event in events]
    join_deltas(trace, Redactor())
    assert "".join(event.get("text", "") for event in trace) == MARK


@pytest.mark.parametrize("text", ["see https://a.b:8080/c", "password: [redacted]", "api_key=$KEY", "token: abc"])
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_process_that_holds_keys_cannot_be_looked_into() -> None:
    code = (
        "import resource, treadle; treadle.hold_secrets();"
        "assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0;"
        "import ctypes; assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0; print('held')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "held\n", done.stderr


# What a repository configures...

TRAPS = {
    "filter.evil.clean": "touch RAN; cat",
    "filter.evil.smudge": "touch RAN; cat",
    "filter.evil.process": "touch RAN",
    "core.fsmonitor": "touch RAN",
    "core.pager": "touch RAN",
    "core.sshCommand": "touch RAN",
    "diff.external": "touch RAN",
    "diff.evil.command": "touch RAN",
    "diff.evil.textconv": "touch RAN; cat",
    "merge.evil.driver": "touch RAN",
    "credential.helper": "!touch RAN",
    "core.askpass": "touch RAN",
}


def test_git_is_started_only_where_no_agent_can_write() -> None:
    """In a store of ours, on a repository that is named, and behind walls. None of these is given a work tree."""
    source = Path(workspace_git.__file__).parents[1]
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if '["git", ' in path.read_text()}
    ours = {f"workspace/{name}.py" for name in ("git", "private_git", "store", "user_repository")}
    assert found == ours | {
        "sandboxed/repositories.py",
        "conform/kit.py",
    }  # the kit makes a new one in an empty directory


def test_our_git_runs_nothing_that_a_repository_configures(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    repository(workspace)
    mark = tmp_path / "ran"
    (workspace / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for hook in ("pre-commit", "post-checkout", "post-commit", "reference-transaction", "post-index-change"):
        (workspace / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (workspace / ".git" / "hooks" / hook).chmod(0o755)
    included = tmp_path / "more"
    included.write_text(f'[filter "evil"]\n\trequired = true\n[diff "other"]\n\ttextconv = "touch {mark}"\n')
    for key, value in TRAPS.items():
        subprocess.run(["git", "-C", str(workspace), "config", key, value.replace("RAN", str(mark))], check=True)
    subprocess.run(["git", "-C", str(workspace), "config", "include.path", str(included)], check=True)
    (workspace / "file.txt").write_text("two\n")
    user = UserRepository.at(str(workspace))
    assert user is not None and b"two" in uncommitted.patch(user)[0]
    assert changes.uncommitted(str(workspace)) and changes.staged_changes(str(workspace)) == []
    assert (
        list(changes.commits(str(workspace), "HEAD")) and changes.scan(Claims(Planning(project=str(workspace)))) == []
    )
    place = prepare("worktree", str(workspace), str(tmp_path / "run"), name="r1")
    Path(place.root, "file.txt").write_text("three\n")
    assert place.publish("work") is not None
    place.discard()
    assert not mark.exists()


def test_the_broken_settings_of_a_project_that_nobody_trusts_are_named_and_stop_nobody(tmp_path: Path) -> None:
    (tmp_path / ".treadle").mkdir()
    for broken in ("not toml [", "permissions = 3", 'permission_mode = "nonsense"', "[limits]\nmax_tokens = 'x'"):
        (tmp_path / ".treadle" / "config.toml").write_text(broken)
        loaded = config.load(str(tmp_path), {})
        assert any(".treadle/config.toml" in said for said in loaded.ignored), broken


def test_a_repository_of_another_user_says_nothing_until_it_is_trusted(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "AGENTS.md").write_text("do as I say")
    assert "do as I say" in knowledge(str(tmp_path))
    if os.geteuid() != 0:
        assert trust.foreign_owner(str(tmp_path)) is None
        return
    os.chown(tmp_path, 65534, 65534)
    assert "belongs to user 65534" in (trust.foreign_owner(str(tmp_path)) or "")
    assert project.has_words(str(tmp_path)) and "do as I say" not in knowledge(str(tmp_path))
    trust.trust(str(tmp_path))
    assert "do as I say" in knowledge(str(tmp_path))
