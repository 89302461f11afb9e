"""Moments of a screen, labelled with the state that it was in."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.terminal.detectors import moments, named

BOX = "─" * 40
IDLE = ["● Done.", "", BOX, "❯ ", BOX]


def write(path: Path, *found: str) -> str:
    path.write_text("\n".join(found))
    return str(path)


def test_a_moment_that_was_recorded_is_judged_again(tmp_path: Path) -> None:
    idle = moments.written("idle", {"screen": "\n".join(IDLE), "title": "✳ Claude Code", "box_seen": True})
    asks = moments.written("idle", {"screen": "Do you want to proceed?\n❯ 1. Yes", "report": None, "box_seen": True})
    path = write(tmp_path / "claude.moments.toml", idle, asks)
    right, wrong = moments.tested(named("claude"), path)
    assert right[:2] == ("idle", "idle") and wrong[:2] == ("idle", "permission") and "Do you want" in wrong[2]


def test_a_report_counts_as_it_did_then(tmp_path: Path) -> None:
    found = {"screen": "\n".join(IDLE), "report": "state=working:app=claude-code", "box_seen": True, "quiet_ms": 5}
    path = write(tmp_path / "m", moments.written("streaming", found))
    assert moments.tested(named("claude"), path)[0][:2] == ("working", "working")


@given(screen=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")), max_size=5))
def test_any_screen_is_kept_as_it_is(screen: list[str]) -> None:
    [moment] = tomllib.loads(moments.written("idle", {"screen": "\n".join(screen)}))["moment"]
    assert "\n".join(moment["screen"]) == "\n".join(screen)


@pytest.mark.parametrize("moment", ["state = 'idle'", "screen = []", "state = 'idle'\nscreen = []\nreport = 'x'"])
def test_what_is_no_moment_is_named_by_its_number(tmp_path: Path, moment: str) -> None:
    path = write(tmp_path / "m", f"[[moment]]\n{moment}")
    with pytest.raises(ConfigError, match="moment 1"):
        moments.tested(named("claude"), path)


def test_what_was_known_is_written_and_what_was_not_is_left_out() -> None:
    found = {
        "screen": "a",
        "title": 'ö"\x7f',
        "report": None,
        "progress": "",
        "box_seen": False,
        "quiet_ms": 0,
        "age_ms": 7,
    }
    [moment] = tomllib.loads(moments.written("idle", found))["moment"]
    assert moment == {
        "state": "idle",
        "title": 'ö"\x7f',
        "box_seen": False,
        "quiet_ms": 0,
        "age_ms": 7,
        "screen": ["a"],
    }
    assert moments.file_of("/d/x.toml") == "/d/x.moments.toml"


def test_each_field_counts_as_evidence(tmp_path: Path) -> None:
    drawn = ["something"]
    for more, state in (
        ({}, "unknown"),
        ({"box_seen": False, "age_ms": 0}, "starting"),
        ({"box_seen": False, "age_ms": 1 << 30}, "unknown"),
        ({"report": "state=working", "quiet_ms": 0}, "working"),
        ({"report": "state=working", "quiet_ms": 1 << 30}, "unknown"),
        ({"title": "✳ Claude Code"}, "unknown"),
    ):
        path = write(tmp_path / "m", moments.written("idle", {"screen": "\n".join(drawn), **more}))
        assert moments.tested(named("claude"), path)[0][1] == state, more
    path = write(tmp_path / "m", "[[moment")
    with pytest.raises(ConfigError, match="/m: "):
        moments.tested(named("claude"), path)
    assert moments.tested(named("claude"), write(tmp_path / "m", "moment = 3")) == []
