"""The files of an agent's session, found on one machine and put where the agent looks on another."""

import re
from pathlib import Path

import pytest

from treadle.fleet.run import resumption
from treadle.io.paths import state_dir


def test_a_session_of_claude_travels_to_another_directory_of_another_home(tmp_path: Path) -> None:
    here, there = {"HOME": str(tmp_path / "a")}, {"HOME": str(tmp_path / "b")}
    old, new = tmp_path / "old.work", tmp_path / "new"
    slug = re.sub("[^A-Za-z0-9]", "-", str(old))
    kept = tmp_path / "a" / ".claude" / "projects" / slug / "s1.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text('{"said": 1}\n')
    files = resumption.collect("claude", "s1", str(old), here)
    assert list(files) == ["s1.jsonl"]
    assert resumption.put_back(files, "claude", str(new), there)
    assert resumption.collect("claude", "s1", str(new), there) == files
    assert resumption.collect("claude", "s2", str(old), here) == {}


def test_a_session_of_codex_keeps_its_date(tmp_path: Path) -> None:
    here, there = {"CODEX_HOME": str(tmp_path / "a")}, {"CODEX_HOME": str(tmp_path / "b")}
    kept = tmp_path / "a" / "sessions" / "2026" / "11" / "15" / "rollout-2026-11-15T20-00-00-t1.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("x\n")
    files = resumption.collect("codex", "t1", "/any", here)
    assert resumption.put_back(files, "codex", "/other", there)
    assert (tmp_path / "b" / "sessions" / "2026" / "11" / "15" / kept.name).read_text() == "x\n"


def test_keys_stay_on_their_machine(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MY_API_KEY": "very-secret-1", "SHORT_TOKEN": "x"}
    kept = tmp_path / ".claude" / "projects" / "-w" / "s1.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("printed very-secret-1 x\n")
    assert resumption.collect("claude", "s1", "/w", environ) == {"s1.jsonl": b"printed [redacted] x\n"}


def test_what_would_be_written_elsewhere_and_what_nobody_keeps_is_refused(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert not resumption.put_back({"../../../out": b"x"}, "claude", "/w", environ)
    assert not resumption.put_back({"a": b"x"}, "gemini", "/w", environ)
    assert not resumption.put_back({}, "claude", "/w", environ)
    assert resumption.collect("gemini", "s1", "/w", environ) == {} and not list(tmp_path.iterdir())


def test_a_session_of_ours_is_its_history_and_one_that_is_too_long_stays_where_it_is(
    state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Path(state_dir(), "sessions", "s1", "history.jsonl")
    kept.parent.mkdir(parents=True)
    kept.write_text("said\n")
    files = resumption.collect("native", "s1", "/w", {})
    assert files == {"s1/history.jsonl": b"said\n"}
    kept.unlink()
    assert resumption.put_back(files, "native", "/w", {}) and kept.read_text() == "said\n"
    assert kept.stat().st_mode & 0o077 == 0
    assert resumption.collect("native", "", "/w", {}) == resumption.collect("nobody", "s1", "/w", {}) == {}
    assert not resumption.put_back(files, "nobody", "/w", {})
    monkeypatch.setattr(resumption, "TRANSCRIPT_MAX", 5)
    assert resumption.collect("native", "s1", "/w", {}) == files
    monkeypatch.setattr(resumption, "TRANSCRIPT_MAX", 4)
    assert resumption.collect("native", "s1", "/w", {}) == {}
