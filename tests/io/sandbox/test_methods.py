"""What this machine can do, and what is said when it cannot."""

import subprocess
import sys

import pytest

from treadle.errors import ConfigError
from treadle.io.sandbox import methods
from treadle.session import Confinement, Mode

NOTHING = methods.Availability(method=None, problems=("bubblewrap: no", "landlock: no"))
LANDLOCK = methods.Availability(method="landlock", problems=("bubblewrap: no",))


@pytest.fixture
def can(monkeypatch: pytest.MonkeyPatch) -> object:
    def be(found: methods.Availability) -> None:
        monkeypatch.setattr(methods, "available", lambda: found)

    return be


def test_by_default_the_two_modes_that_ask_little_are_confined(can: object) -> None:
    can(LANDLOCK)  # type: ignore[operator]
    modes: tuple[Mode | None, ...] = ("plan", "suggest", "auto-edit", "full-auto", "yolo", None)
    confined = [mode for mode in modes if methods.wanted(Confinement(), mode)]
    assert confined == ["auto-edit", "full-auto"]


def test_what_is_demanded_and_cannot_be_kept_is_refused(can: object) -> None:
    can(NOTHING)  # type: ignore[operator]
    assert not methods.wanted(Confinement(), "full-auto")
    with pytest.raises(ConfigError, match="--sandbox cannot be kept on this machine: bubblewrap: no; landlock: no"):
        methods.wanted(Confinement(use="on"), "suggest")
    can(LANDLOCK)  # type: ignore[operator]
    assert methods.wanted(Confinement(use="on"), "yolo")
    with pytest.raises(ConfigError, match="network cannot be kept off"):
        methods.wanted(Confinement(use="on", network="off"), "full-auto")
    assert not methods.wanted(Confinement(use="off"), "full-auto")


def test_no_variable_makes_it_believe_that_it_is_confined_already() -> None:
    code = "from treadle.io.sandbox.methods import available; print(available().method)"
    tried = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        for env in ({"PATH": "/usr/bin:/bin"}, {"PATH": "/usr/bin:/bin", "TREADLE_IN_SANDBOX": "landlock"})
    ]
    assert tried[0] == tried[1]


def test_without_the_program_it_says_so() -> None:
    code = "from treadle.io.sandbox.methods import available; print(available().problems)"
    said = subprocess.run([sys.executable, "-c", code], env={"PATH": "/nowhere"}, capture_output=True, text=True).stdout
    assert "bubblewrap: there is no program bwrap" in said
