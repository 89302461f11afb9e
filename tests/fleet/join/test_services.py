"""A node as a unit of the user's systemd."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from treadle.errors import LocalError
from treadle.fleet import node
from treadle.fleet.join import membership


def test_the_unit_of_a_node_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = membership.unit("n1")
    assert "TREADLE_HOME=" in text
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    assert found["Service"]["KillMode"] == "process", "runners outlive the node"
    assert found["Service"]["Restart"] == "always" and found["Install"]["WantedBy"] == "default.target"
    assert found["Service"]["ExecStart"].split()[-2:] == ["treadle.fleet.node", "n1"]
    if shutil.which("systemd-analyze"):
        path = tmp_path / "treadle-node-n1.service"
        path.write_text(text)
        argv = ["systemd-analyze", "--user", "verify", path]
        env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
        assert "treadle-node-n1.service" not in done.stderr, done.stderr


SYSTEMCTL = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLED"
case "$*" in *"$FAILS"*) echo "it fails" >&2; exit 1;; esac
"""


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs that stand in for systemd's note how they were called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("systemctl", "loginctl"):
        (programs / name).write_text(SYSTEMCTL)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    monkeypatch.setenv("FAILS", "no-such-words")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "called"


def test_a_node_becomes_a_unit_that_is_enabled_and_outlives_its_user_s_login(
    called: Path, state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = node.NodeSettings(name="n1", slots=3)
    assert membership.start_node(settings) == "treadle-node-n1.service" and node.load_settings("n1") == settings
    place = tmp_path / "config" / "systemd" / "user" / "treadle-node-n1.service"
    assert place.read_text() == membership.unit("n1") and place.stat().st_mode & 0o777 == 0o644
    assert called.read_text().splitlines() == [
        "systemctl --user show-environment",
        "systemctl --user daemon-reload",
        "systemctl --user enable --now treadle-node-n1.service",
        "loginctl enable-linger",
    ]
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert membership.start_node(settings) == membership.start_node(settings), "also where it was installed before"
    assert (tmp_path / "home" / ".config" / "systemd" / "user" / "treadle-node-n1.service").exists()


def test_without_a_systemd_that_answers_nothing_is_installed(
    called: Path, state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert membership.available()
    monkeypatch.setenv("FAILS", "enable --now")
    with pytest.raises(LocalError, match="systemctl --user enable --now treadle-node-n1.service failed: it fails"):
        membership.start_node(node.NodeSettings(name="n1"))
    monkeypatch.setenv("FAILS", "show-environment")
    assert not membership.available() and membership.start_node(node.NodeSettings(name="n2")) == ""
    assert not (tmp_path / "config" / "systemd" / "user" / "treadle-node-n2.service").exists()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert not membership.available()
