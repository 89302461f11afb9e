"""How a machine can confine programs, and the messages when it cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.io.sandbox.rooms import vanishing_socket
from tests.machines import LANDLOCK_CREATE_RULESET, refusing
from treadle.errors import ConfigError
from treadle.io.sandbox import landlock, methods
from treadle.session import Confinement, Mode

MODES: tuple[Mode | None, ...] = ("plan", "suggest", "auto-edit", "full-auto", "yolo", None)
NOWHERE = "/nowhere"
ASK = """
import json
from treadle.errors import ConfigError
from treadle.io.sandbox import methods
from treadle.session import Confinement

def wanted(mode, **asked):
    try:
        return methods.wanted(Confinement(**asked), mode)
    except ConfigError as error:
        return str(error) + " / " + str(error.hint)

found = methods.available()
print(json.dumps({
    "method": found.method, "problems": found.problems, "cannot": found.cannot, "network": found.network,
    "auto": [wanted(mode) for mode in ("plan", "suggest", "auto-edit", "full-auto", "yolo", None)],
    "on": wanted("suggest", use="on"), "offline": wanted("full-auto", use="on", network="off"),
    "off": wanted("full-auto", use="off"),
}))
"""


def ask(before: str = "", **env: str) -> Any:
    """Ask a process on a machine that is made to lack something."""
    argv = [sys.executable, "-c", before + ASK]
    done = subprocess.run(argv, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_with_neither_method_nothing_is_confined_and_what_is_demanded_is_refused() -> None:
    said = ask(refusing(LANDLOCK_CREATE_RULESET), PATH=NOWHERE)
    assert said["method"] is None and not said["network"]
    assert said["problems"][0] == "bubblewrap: there is no program bwrap" and said["problems"][1].startswith("landlock")
    assert said["auto"] == [False] * 6 and said["off"] is False
    assert said["on"].startswith(
        "--sandbox cannot be enforced on this machine: bubblewrap: there is no program bwrap; land"
    )
    assert "install bubblewrap" in said["on"]


if methods.available().method == "bubblewrap":

    def test_a_socket_that_vanishes_during_the_trial_leaves_bubblewrap_usable(tmp_path: Path) -> None:
        with vanishing_socket(tmp_path) as path:
            assert ask(PATH=path)["method"] == "bubblewrap"


if landlock.problem() is None:

    def test_without_bubblewrap_it_is_landlock_which_cannot_keep_the_network_off() -> None:
        said = ask(PATH=NOWHERE)
        assert said["method"] == "landlock" and said["cannot"] == list(landlock.CANNOT) and not said["network"]
        assert said["auto"] == [False, False, True, True, False, False] and said["on"] is True and said["off"] is False
        assert said["offline"].startswith("the network cannot be cut off on this machine: bubblewrap: there is no")


def test_by_default_the_two_modes_that_ask_little_are_confined() -> None:
    can = methods.available().method is not None
    confined = [mode for mode in MODES if methods.wanted(Confinement(), mode)]
    assert confined == (["auto-edit", "full-auto"] if can else [])
    assert not methods.wanted(Confinement(use="off"), "full-auto")
    if can:
        assert methods.wanted(Confinement(use="on"), "yolo")
    else:
        with pytest.raises(ConfigError):
            methods.wanted(Confinement(use="on"), "yolo")


def test_no_variable_makes_it_believe_that_it_is_confined_already() -> None:
    assert ask() == ask(TREADLE_IN_SANDBOX="landlock")
