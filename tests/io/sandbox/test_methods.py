"""How a machine can confine programs, what Landlock is told, and the messages when neither method works."""

import json
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.io.sandbox.rooms import vanishing_socket
from tests.machines import LANDLOCK_CREATE_RULESET, refusing
from tests.safety import as_nobody
from treadle.io.sandbox import landlock, methods, parted
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
        assert said["offline"].startswith("the network cannot be switched off on this machine: bubblewrap: there is no")


def test_no_variable_makes_it_believe_that_it_is_confined_already() -> None:
    assert ask() == ask(TREADLE_IN_SANDBOX="landlock")


class Machine:
    """What this machine has: a program of ours in the place of bwrap, and the kernel's version of Landlock."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bwrap = place / "bwrap"
        self.set = monkeypatch
        self.set.setenv("PATH", str(place))

    def has(self, bwrap: str = "", version: int = 2) -> methods.Availability:
        """`bwrap`: the whole script, or none. Views of the machine are too many steps for it."""
        self.set.setattr(parted, "MOST", -1)
        self.bwrap.unlink(missing_ok=True)
        if bwrap:
            self.bwrap.write_text(bwrap)
            self.bwrap.chmod(0o755)
        kernel = SimpleNamespace(landlock_abi_version=lambda: version, min_landlock_abi=lambda: 3)
        self.set.setitem(sys.modules, "sandlock", kernel)
        methods.available.cache_clear()
        return methods.available()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    yield Machine(tmp_path, monkeypatch)
    methods.available.cache_clear()


WORKS = "#!/bin/sh\nexit 7\n"
"""As the command would in which it is tried."""
NEITHER = "bubblewrap: there is no program bwrap; landlock: this kernel has version 2 of it, 3 is needed"


def test_the_best_method_that_works_is_taken_and_what_it_cannot_do_is_said(machine: Machine) -> None:
    part = machine.has(WORKS)
    assert (part.method, part.divides, part.network, part.problems) == ("bubblewrap", False, True, ())
    why = "this machine has too many mounts for a sandbox (more than -1 steps)"
    assert part.cannot[-2:] == (methods.UNDIVIDED.format(why), "keep programs from FIFOs outside")
    other = machine.has(version=3)
    assert (other.method, other.divides, other.network) == ("landlock", False, False)
    assert other.problems == ("bubblewrap: there is no program bwrap",) and other.cannot == landlock.CANNOT
    neither = machine.has()
    assert neither.method is None and "; ".join(neither.problems) == NEITHER


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
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "PROC", str(tmp_path))
    for folder in ("self", "sys/user", "sys/kernel"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "self" / "status").write_text("Seccomp:\t0\n")

    def explained(**more: str) -> str:
        names = {"max": "user/max_user_namespaces", "clone": "kernel/unprivileged_userns_clone"}
        names["armor"] = "kernel/apparmor_restrict_unprivileged_userns"
        for name, value in more.items():
            (tmp_path / "sys" / names[name]).write_text(value)
        return methods._explained("no")

    assert explained() == "no" and explained(max="100\n", clone="1\n", armor="0\n") == "no"
    assert explained(armor="1\n") == "no (AppArmor wants a profile for bwrap)"
    assert explained(clone="0\n") == "no (sysctl kernel.unprivileged_userns_clone is 0)"
    assert explained(max="0\n") == "no (sysctl user.max_user_namespaces is 0)"
    for script, why in (("exit 3", "bwrap exits with 3"), ("echo no >&2; exit 1", "no")):
        found = machine.has(f"#!/bin/sh\n{script}\n").problems[0]
        assert found == f"bubblewrap: {why} (sysctl user.max_user_namespaces is 0)"
    shutil.rmtree(tmp_path / "sys")
    (tmp_path / "self" / "status").write_text("Name:\tx\nSeccomp:\t2\n")
    assert explained() == "no (a container's system call filter may forbid user namespaces)"


def test_a_program_that_cannot_be_started_or_another_system_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = machine.has("#!/no/such/program\n").problems[0]
    assert found.startswith(f"bubblewrap: cannot start {machine.bwrap}")
    monkeypatch.setattr(sys, "platform", "plan9")
    assert machine.has(WORKS).problems == ("bubblewrap: not on plan9", "landlock: not on plan9")


def plan(**fields: Any) -> dict[str, Any]:
    argv = landlock.command(Confinement(**fields))
    assert argv[:4] == [sys.executable, "-I", "-m", "treadle.io.sandbox.landlock"]
    return dict(json.loads(argv[4]))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in (".git/refs", "src", "lib/.git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a").touch()
    (tmp_path / "out").symlink_to("/etc")
    return tmp_path


def test_the_workspace_is_granted_whole_where_nothing_in_it_is_kept(top: Path) -> None:
    assert str(top) in plan(write=(str(top),))["writable"]


def test_beside_a_git_directory_each_name_is_granted_and_neither_it_nor_a_link_out(top: Path) -> None:
    granted = plan(write=(str(top),), read_only=(str(top / ".git"), str(top / "lib" / ".git")))["writable"]
    ours = [place for place in granted if place.startswith(str(top))]
    assert ours == [str(top / "a"), str(top / "src")]
    assert not [place for place in granted if place in ("/", "/etc", str(top), str(top / "lib"))]


def test_what_is_kept_for_other_reasons_does_not_narrow_the_grant(top: Path) -> None:
    assert str(top) in plan(write=(str(top),), read_only=(str(top / "a"),))["writable"]


def test_the_temporary_directory_is_granted_and_our_state_only_if_asked(top: Path, state_home: Path) -> None:
    state = os.path.realpath(landlock.state_dir())
    os.makedirs(state, exist_ok=True)
    assert str(top) in plan(temp=str(top))["writable"] and state not in plan(temp=str(top))["writable"]
    assert state in plan(temp=str(top), state=str(top))["writable"]


def test_a_process_that_can_still_write_outside_does_not_count_as_confined() -> None:
    code = "from treadle.io.sandbox.landlock import _prove; import os; os.environ['HOME'] = {!r}; _prove(['/', '/etc'])"
    home = os.path.realpath("/tmp")
    with subprocess.Popen([sys.executable, "-c", code.format(home)], stderr=subprocess.PIPE, text=True) as proving:
        _, complaint = proving.communicate(timeout=60)
    assert proving.returncode == 1 and complaint == f"the sandbox is incomplete: {home} can still be written\n"
    assert not os.path.exists(f"{home}/.treadle-sandbox-{proving.pid}")
    nowhere = subprocess.run([sys.executable, "-c", code.format("/proc")], capture_output=True, text=True, timeout=60)
    assert nowhere.returncode != 0, "a place that fails in another way proves nothing"


def test_why_it_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(has: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(landlock_abi_version=lambda: has, min_landlock_abi=lambda: 3)

    for has, why in ((3, None), (4, None), (2, "version 2 of it, 3 is needed"), (-1, "version 0 of it, 3 is needed")):
        monkeypatch.setitem(sys.modules, "sandlock", kernel(has))
        found = landlock.problem()
        assert found is None if why is None else found == f"this kernel has {why}"
    monkeypatch.setitem(sys.modules, "sandlock", None)
    assert (landlock.problem() or "").startswith("sandlock is not usable (")
    monkeypatch.setattr(sys, "platform", "plan9")
    assert landlock.problem() == "not on plan9"


def test_devices_that_are_there_can_be_written_and_others_files_only_with_the_right_for_it(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(write=(str(top), str(top)))
    assert {"/dev/null", "/dev/zero"} <= {*made["writable"]} and made["keep"] == []
    assert len(made["writable"]) == len({*made["writable"]}) and all(map(os.path.exists, made["writable"]))
    monkeypatch.setattr(landlock, "DEVICES", ("null", "no-such-device"))
    assert plan()["writable"] == ["/dev/null"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if os.stat(top).st_uid == 0:
        os.chown(top, as_nobody.NO_ID, -1)
    assert plan(write=(str(top),))["keep"] == [1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_all_rights_but_those_that_are_needed_are_given_up() -> None:
    code = (
        "import os; from treadle.io.sandbox import landlock; landlock._give_up_capabilities([1])\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('CapBnd')][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert int(done.stdout, 16) == 2, done.stderr
