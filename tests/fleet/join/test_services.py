"""A node as a unit of the user's systemd."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

from treadle.fleet.join import services


def test_the_unit_of_a_node_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = services.unit("n1")
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
