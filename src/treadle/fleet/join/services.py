"""A node under the user's systemd: started with the machine and restarted when it ends, while its runners go on."""

import os
import shutil
import sys

from treadle.errors import LocalError
from treadle.fleet import node
from treadle.io.files import write_atomic
from treadle.io.paths import state_dir
from treadle.io.process.programs import run_program

UNIT = "treadle-node-{}.service"


def available() -> bool:
    """Whether the user has a systemd that accepts units."""
    if shutil.which("systemctl") is None:
        return False
    return run_program(["systemctl", "--user", "show-environment"], timeout=20).code == 0


def unit(name: str) -> str:
    """The text of the unit. Runners outlive the node, so systemd must end only the node's own process."""
    return f"""[Unit]
Description=Treadle fleet node {name}
After=network-online.target

[Service]
Environment=TREADLE_HOME={state_dir()}
ExecStart={sys.executable} -P -m treadle.fleet.node {name}
Restart=always
RestartSec=2
KillMode=process

[Install]
WantedBy=default.target
"""


def start_node(settings: node.NodeSettings) -> str:
    """Install and start the unit. Returns its name, or nothing where the user has no systemd."""
    if not available():
        return ""
    name = UNIT.format(settings.name)
    node.save_settings(settings)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    place = os.path.join(home, "systemd", "user")
    os.makedirs(place, exist_ok=True)
    write_atomic(os.path.join(place, name), unit(settings.name).encode(), 0o644)
    for words in (["daemon-reload"], ["enable", "--now", name]):
        done = run_program(["systemctl", "--user", *words], timeout=60)
        if done.code:
            raise LocalError(f"systemctl --user {' '.join(words)} failed: {done.complaint}")
    # Without it, systemd ends the node when its user logs out. Not everybody may ask for it.
    run_program(["loginctl", "enable-linger"], timeout=20) if shutil.which("loginctl") else None
    return name
