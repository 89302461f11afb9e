"""How a machine can confine programs, and the messages when it cannot."""

import io
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
from treadle.io.sandbox import bubblewrap, landlock, methods
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


def problems(
    monkeypatch: pytest.MonkeyPatch, *, divided: str | None, plain: str | None, landlock_problem: str | None
) -> methods.Availability:
    monkeypatch.setattr(methods, "_problem_of", lambda *, divided: found[divided])
    found = {True: divided, False: plain}
    monkeypatch.setattr(landlock, "problem", lambda: landlock_problem)
    methods.available.cache_clear()
    try:
        return methods.available()
    finally:
        methods.available.cache_clear()


def test_the_best_method_that_works_is_taken_and_what_it_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = problems(monkeypatch, divided=None, plain="not asked", landlock_problem="not asked")
    assert (whole.method, whole.divides, whole.network, whole.problems) == ("bubblewrap", True, True, ())
    assert not any("Unix sockets" in each for each in whole.cannot)
    part = problems(monkeypatch, divided="no overlays", plain=None, landlock_problem="not asked")
    assert (part.method, part.divides, part.network) == ("bubblewrap", False, True)
    assert part.cannot[-2:] == (methods.UNDIVIDED.format("no overlays"), "keep programs from FIFOs outside")
    other = problems(monkeypatch, divided="none", plain="no bwrap", landlock_problem=None)
    assert (other.method, other.divides, other.network) == ("landlock", False, False)
    assert other.problems == ("bubblewrap: no bwrap",) and other.cannot == landlock.CANNOT
    neither = problems(monkeypatch, divided="none", plain="no bwrap", landlock_problem="too old")
    assert neither.method is None and neither.problems == ("bubblewrap: no bwrap", "landlock: too old")


def test_who_asks_for_what_cannot_be_enforced_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    found = methods.Availability(method=None, problems=("a: x", "b: y"))
    monkeypatch.setattr(methods, "available", lambda: found)
    assert not methods.wanted(Confinement(), "full-auto") and not methods.wanted(Confinement(use="possible"), "plan")
    with pytest.raises(ConfigError, match="--sandbox cannot be enforced on this machine: a: x; b: y") as error:
        methods.wanted(Confinement(use="on"), "plan")
    assert error.value.hint is not None and error.value.hint.startswith("install bubblewrap (bwrap) or use a kernel")
    found = methods.Availability(method="landlock", problems=("a: x",))
    assert methods.wanted(Confinement(use="on"), "plan") and methods.wanted(Confinement(use="possible"), "plan")
    assert methods.wanted(Confinement(network="off"), "full-auto"), "by itself it does what it can"
    with pytest.raises(ConfigError, match="the network cannot be cut off on this machine: a: x") as error:
        methods.wanted(Confinement(use="on", network="off"), "plan")
    assert error.value.hint == "install bubblewrap (bwrap), or run with --network on"
    found = methods.Availability(method="bubblewrap")
    assert methods.wanted(Confinement(use="on", network="off"), "yolo")


@pytest.mark.parametrize(
    ("use", "modes"),
    [
        ("auto", ["auto-edit", "full-auto"]),
        ("possible", ["plan", "suggest", "auto-edit", "full-auto", None]),
        ("on", [*MODES]),
        ("off", []),
    ],
)
def test_which_modes_are_confined(use: Any, modes: list[Mode | None]) -> None:
    assert [mode for mode in MODES if methods.asked_for(Confinement(use=use), mode)] == modes


def test_what_bubblewrap_complains_about_is_explained_by_the_machines_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, str] = {"/proc/self/status": "Seccomp:\t0\n"}

    def opening(path: str, **how: Any) -> io.StringIO:
        if path not in files:
            raise FileNotFoundError
        return io.StringIO(files[path])

    def explained(**more: str) -> str:
        names = {"max": "user/max_user_namespaces", "clone": "kernel/unprivileged_userns_clone"}
        names["armor"] = "kernel/apparmor_restrict_unprivileged_userns"
        files.update({f"/proc/sys/{names[name]}": value for name, value in more.items()})
        with monkeypatch.context() as patched:
            patched.setattr("builtins.open", opening)
            return methods._explained("no")

    assert explained() == "no" and explained(max="100\n", clone="1\n", armor="0\n") == "no"
    assert explained(armor="1\n") == "no (AppArmor wants a profile for bwrap)"
    assert explained(clone="0\n") == "no (sysctl kernel.unprivileged_userns_clone is 0)"
    assert explained(max="0\n") == "no (sysctl user.max_user_namespaces is 0)"
    files.clear()
    files["/proc/self/status"] = "Name:\tx\nSeccomp:\t2\n"
    assert explained() == "no (a container's system call filter may forbid user namespaces)"


def test_without_the_program_or_the_system_there_is_no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find", lambda directory: None)
    assert methods._problem_of(divided=True) == "there is no program bwrap"
    for code, says in (("exit 3", "bwrap exits with 3"), ("echo no >&2; exit 1", "no")):
        monkeypatch.setattr(bubblewrap, "find", lambda directory: "/bin/sh")
        monkeypatch.setattr(bubblewrap, "command", lambda *a, code=code, **k: ["/bin/sh", "-c", code])
        assert (methods._problem_of(divided=False) or "").startswith(says)
    monkeypatch.setattr(bubblewrap, "command", lambda *a, **k: ["/no/such/program"])
    assert "cannot start /no/such/program" in (methods._problem_of(divided=False) or "")
    monkeypatch.setattr(sys, "platform", "plan9")
    assert methods._problem_of(divided=True) == "not on plan9"
