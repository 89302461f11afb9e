"""What bubblewrap is told to mount, and networks that commands share."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.io.process.test_view import overlays
from tests.io.sandbox import neighbours
from tests.io.sandbox.rooms import HAS_BUBBLEWRAP
from tests.safety import as_nobody
from treadle.io.sandbox import bubblewrap
from treadle.io.sandbox.bubblewrap import SharedNetwork, running, shared
from treadle.session import Confinement, Mount


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in (".git/hooks", "src/deep", "secrets"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src" / "deep" / "held").touch()
    (tmp_path / ".env").touch()
    return tmp_path


def words(top: Path, *, filtered: bool = True, **fields: Any) -> list[str]:
    confinement = Confinement(write=(str(top),), **fields)
    mounts = bubblewrap.Mounts(confinement, divided=False)
    return bubblewrap.command("bwrap", confinement, str(top), filtered=filtered, mounts=mounts)


def place(argv: list[str], *option: str) -> int:
    """Where an option with these words is; it must be there exactly once."""
    found = [at for at in range(len(argv)) if tuple(argv[at : at + len(option)]) == option]
    assert len(found) == 1, (option, found)
    return found[0]


def test_the_machine_is_read_only_then_the_workspace_writable_then_what_is_kept_in_it(top: Path) -> None:
    held = str(top / "src" / "deep" / "held")
    argv = words(top, read_only=(held,), hidden=(str(top / ".env"), str(top / "secrets")))
    order = [
        place(argv, "--ro-bind", "/", "/"),
        place(argv, "--bind", str(top), str(top)),
        place(argv, "--bind", str(top / "src"), str(top / "src")),
        place(argv, "--bind", str(top / "src" / "deep"), str(top / "src" / "deep")),
        place(argv, "--ro-bind", held, held),
        place(argv, "--ro-bind", "/dev/null", str(top / ".env")),
        place(argv, "--perms", "0000", "--tmpfs", str(top / "secrets")),
    ]
    assert order == sorted(order)
    assert argv[-3:] == ["--chdir", str(top), "--"]


def test_a_private_git_directory_covers_the_workspaces_and_is_covered_by_what_is_kept_in_it(top: Path) -> None:
    git, mine = str(top / ".git"), str(top / "secrets")
    argv = words(top, mounts=(Mount(source=mine, target=git, write=True),), read_only=(f"{git}/hooks",))
    assert place(argv, "--bind", str(top), str(top)) < place(argv, "--bind", mine, git)
    assert place(argv, "--bind", mine, git) < place(argv, "--ro-bind", f"{git}/hooks", f"{git}/hooks")
    argv = words(top, mounts=(Mount(source=mine, target=git),))
    place(argv, "--ro-bind", mine, git)


def test_a_link_to_something_writable_is_kept_by_where_it_leads_and_one_elsewhere_needs_nothing(top: Path) -> None:
    (top / "to-env").symlink_to(top / ".env")
    (top / "to-etc").symlink_to("/etc/hostname")
    argv = words(top, read_only=(str(top / "to-env"), str(top / "to-etc"), str(top / "missing")))
    place(argv, "--ro-bind", str(top / ".env"), str(top / ".env"))
    assert not [word for word in argv if word.endswith(("to-env", "to-etc", "missing"))]


def test_what_is_inside_of_something_hidden_is_not_masked_again(top: Path) -> None:
    argv = words(top, hidden=(str(top / "src" / "deep"), str(top / "src"), str(top / "nothing")))
    place(argv, "--tmpfs", str(top / "src"))
    assert str(top / "src" / "deep") not in argv and str(top / "nothing") not in argv


@pytest.mark.parametrize(("network", "alone"), [("off", True), ("on", False), ("auto", False)])
def test_the_network_is_its_own_only_where_it_is_off(top: Path, network: Any, alone: bool) -> None:
    assert ("--unshare-net" in words(top, network=network)) is alone


def test_processes_are_apart_die_with_us_and_have_no_capabilities(top: Path) -> None:
    argv = words(top)
    for option in ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session"):
        place(argv, option)
    place(argv, "--cap-drop", "ALL")
    place(argv, "--seccomp", str(bubblewrap.FILTER))
    assert "--seccomp" not in words(top, filtered=False)


def test_temporary_files_are_its_own_unless_a_place_is_given(top: Path) -> None:
    place(words(top), "--tmpfs", "/tmp")
    argv = words(top, temp=str(top / "secrets"))
    place(argv, "--bind", str(top / "secrets"), "/tmp")
    assert ["--tmpfs", "/tmp"] not in [argv[at : at + 2] for at in range(len(argv))]


def test_a_place_that_is_gone_before_it_was_hidden_is_noticed(top: Path) -> None:
    mounts = bubblewrap.Mounts(Confinement(write=(str(top),), hidden=(str(top / ".env"),)), divided=False)
    assert not mounts.vanished()
    (top / ".env").unlink()
    assert mounts.vanished()


def test_the_first_process_waits_for_our_signal_and_runs_the_words_as_they_are() -> None:
    argv = bubblewrap.init(["a b", "$(c)"], linger=False)
    assert argv[3:] == ["treadle-init", "a b", "$(c)"] and argv[2].startswith(bubblewrap.INIT)
    assert bubblewrap.LINGER not in argv[2] and bubblewrap.LINGER in bubblewrap.init(["x"], linger=True)[2]
    aside = bubblewrap.init(["x"], linger=False, aside=0)[2]
    assert "<&0 >&1" in aside and bubblewrap.RUN not in aside and aside.endswith("exit $code")


@pytest.fixture
def private(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of /tmp: a directory of which a sandbox has its own, with nothing of ours in it."""
    place = tmp_path_factory.mktemp("private")
    monkeypatch.setattr(bubblewrap.places, "PRIVATE", (str(place),))
    (place / "w").mkdir()
    return place


def test_what_we_run_from_is_shown_where_the_sandbox_has_its_own(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(private / "python"))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    argv = words(private / "w")
    place(argv, "--ro-bind", str(private / "python"), str(private / "python"))
    assert "/usr" not in argv
    monkeypatch.setattr(bubblewrap.places, "PRIVATE", ("/etc",))
    real = os.path.realpath("/etc/resolv.conf")
    there = os.path.isfile(real) and real.startswith("/etc/")
    assert words(private / "w").count(real) == (2 if there else 0)
    monkeypatch.setattr(bubblewrap.places, "PRIVATE", ("/tmp",))
    assert real not in words(private / "w") or not real.startswith("/etc/")


def test_our_own_state_is_empty_or_the_given_one_and_never_the_real_one(
    private: Path, top: Path, state_home: Path
) -> None:
    state, given = state_home / "treadle", str(top / "secrets")
    argv = words(top)
    assert str(state) not in argv, "there is none"
    state.mkdir()
    (state / "config.toml").touch()
    argv = words(top)
    assert place(argv, "--tmpfs", str(state)) < place(argv, "--bind", str(top), str(top))
    place(argv, "--ro-bind", "/dev/null", str(state / "config.toml"))
    argv = words(top, state=given)
    place(argv, "--bind", given, str(state))
    assert ["--tmpfs", str(state)] not in [argv[at : at + 2] for at in range(len(argv))]
    argv = words(state_home)
    assert place(argv, "--bind", str(state_home), str(state_home)) < place(argv, "--tmpfs", str(state))
    assert words(state).count(str(state)) == 3, "what is to be written itself, and the working directory"
    hidden = words(top, hidden=(str(state / "config.toml"),))
    assert hidden.count(str(state / "config.toml")) == 1, "what is emptied is not masked again"
    hidden = words(state_home, hidden=(str(state / "config.toml"),))
    assert hidden.count(str(state / "config.toml")) == 2, "it is masked where it can be written around it"


def test_our_own_state_in_a_place_that_the_sandbox_has_itself_needs_nothing(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = private / "state"
    state.mkdir()
    monkeypatch.setenv("TREADLE_HOME", str(state))
    assert str(state) not in words(private / "w")
    place(words(private / "w", state="/given"), "--bind", "/given", str(state))
    argv = words(private / "w", read_only=(str(private),))
    assert place(argv, "--ro-bind", str(private), str(private)) < place(argv, "--tmpfs", str(state))
    monkeypatch.setattr(sys, "prefix", str(private))
    place(words(private / "w"), "--tmpfs", str(state))


def test_what_is_shown_around_the_workspace_does_not_cover_it_and_what_is_beside_it_comes_last(
    private: Path, top: Path
) -> None:
    beside = str(private / "beside")
    os.mkdir(beside)
    argv = words(private / "w", read_only=(str(private), beside))
    bound = place(argv, "--bind", str(private / "w"), str(private / "w"))
    assert place(argv, "--ro-bind", str(private), str(private)) < bound < place(argv, "--ro-bind", beside, beside)
    mounts = bubblewrap.Mounts(Confinement(write=(str(top),), read_only=(beside, str(top / ".env"))), divided=False)
    assert mounts.outside() == [beside] and mounts.outside([]) == [] and mounts.source(beside) == beside
    assert mounts.inside([beside, str(top / ".env"), str(top)]) == [str(top / ".env"), str(top)]


def test_the_kernels_files_are_kept_from_root_and_one_capability_is_kept_if_it_is_needed(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        argv = words(top)
        assert ("/proc/sys" in argv) is (user == 0) and f"/run/user/{user}" in argv
        alone = user != 0 or os.stat(top).st_uid == 0
        assert ("--unshare-user" in argv) is alone and ("--cap-add" not in argv) is alone
        env = bubblewrap.environment({"A": "b"}, Confinement())
        assert (env["XDG_RUNTIME_DIR"], env["TMPDIR"], env["A"]) == (f"/run/user/{user}", "/tmp", "b")
    monkeypatch.setattr(bubblewrap, "KERNEL", ("/no/such/place",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if os.stat(top).st_uid == 0:
        os.chown(top, as_nobody.NO_ID, -1)
    argv = words(top)
    place(argv, "--cap-add", "CAP_DAC_OVERRIDE")
    assert "--unshare-user" not in argv and "/no/such/place" not in argv


def test_directories_above_something_kept_are_pinned_but_no_links_and_nothing_that_is_mounted_anyway(top: Path) -> None:
    (top / "link").symlink_to("src")
    held = str(top / "link" / "deep" / "held")

    def pins(*more: str, **fields: Any) -> list[str]:
        confinement = Confinement(write=(str(top), *more), **fields)
        return [os.path.relpath(one, top) for one in bubblewrap.Mounts(confinement, divided=False).pins]

    assert pins(read_only=(held,)) == ["src", "src/deep"] == pins(hidden=(held,))
    assert pins(str(top / "src"), read_only=(held,)) == ["src/deep"]
    shown = Mount("/x", str(top / "src" / "deep"))
    assert pins(mounts=(shown,)) == ["src"] == pins(mounts=(shown,), read_only=(held,))
    assert pins(read_only=(str(top / ".env"), str(top / "none" / "x"), "/etc/passwd")) == []


def test_only_what_would_be_seen_is_masked(private: Path, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = private / "w" / "file"
    file.touch()
    assert str(file) not in words(top, hidden=(str(file),)), "the sandbox has its own of that place"
    for seen in ({"read_only": (str(private),)}, {"read_only": (str(file),)}):
        place(words(top, hidden=(str(file),), **seen), "--ro-bind", "/dev/null", str(file))
    place(words(private / "w", hidden=(str(file),)), "--ro-bind", "/dev/null", str(file))
    monkeypatch.setattr(sys, "prefix", str(private))  # we run from there
    place(words(top, hidden=(str(file),)), "--ro-bind", "/dev/null", str(file))


def test_sockets_outside_are_kept_apart_by_the_view_and_by_masks(
    private: Path, top: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pipe", "given", "src/pipe"):
        os.mkfifo(top / name)
    shown = Mount(str(top / "secrets"), str(top / "src"))
    fields: dict[str, Any] = {"write": (str(top),), "sockets": (str(top / "given"),), "mounts": (shown,)}
    network = SharedNetwork("/proc/self/ns/net", "net:[1]")
    running = private / "python"
    running.mkdir()
    monkeypatch.setattr(sys, "prefix", str(running))
    for kind in ("on", "off"):
        walls = Confinement(network=kind, read_only=(str(private / "w"), str(top / ".git")), **fields)
        mounts = bubblewrap.Mounts(walls, network=network)
        assert mounts.hidden == [str(top / "pipe")] and mounts.network == network and mounts.view is not None
        plan = mounts.view.plan()
        assert plan["scope"] is (kind == "on") and plan["network"] == b"/proc/self/ns/net"
        argv = bubblewrap.command("bwrap", walls, "/", filtered=False, mounts=mounts, passages=[("/out", "/in")])
        assert place(argv, "--ro-bind", mounts.view.root, "/") < place(argv, "--ro-bind", "/sys", "/sys")
        for one in (running, private / "w"):
            assert mounts.source(str(one)) != str(one)
            place(argv, "--ro-bind", mounts.source(str(one)), str(one))
        assert mounts.source("/usr") == "/usr" and mounts.source(str(top / ".git")) == str(top / ".git")
        assert place(argv, "--bind", "/out", "/in") < argv.index("--chdir") and "--unshare-net" not in argv
    alone = bubblewrap.Mounts(walls)
    assert alone.view is not None and alone.view.plan()["network"] == b"" and alone.network is None
    assert "--unshare-net" in bubblewrap.command("bwrap", walls, "/", filtered=False, mounts=alone)
    plain = bubblewrap.Mounts(walls, divided=False, network=network)
    assert plain.view is None and plain.network is None and plain.hidden == []


def test_the_program_is_not_taken_from_a_workspace(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / "bwrap").touch(0o755)
    monkeypatch.setenv("PATH", str(top))
    assert (bubblewrap.find(), bubblewrap.find(str(top))) == (str(top / "bwrap"), None)


divided = pytest.mark.skipif(not (HAS_BUBBLEWRAP and overlays()), reason="programs cannot share a network here")


def check(found: dict[str, list[str]], user: int) -> None:
    assert found["reached"] == ["one"]
    status = dict(line.split(":\t", 1) for line in found["said"] if ":\t" in line)
    assert found["said"][0] == str(user) and int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1"
    assert any("permission denied" in line or "superuser" in line for line in found["said"][-2:])


@divided
async def test_programs_with_the_same_private_tmp_reach_each_other_and_no_one_else_does(tmp_path: Path) -> None:
    check(await neighbours.tried(tmp_path), os.geteuid())


@pytest.mark.slow
@divided
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_it_too_and_no_more_rights_for_it() -> None:
    with as_nobody.room() as base:
        check(as_nobody.as_another(base, [neighbours.__file__, str(base)]), as_nobody.NO_ID)


def test_a_network_is_joined_by_those_with_the_same_tmp_while_one_of_them_runs() -> None:
    one, path = Confinement(network="off", temp="/tmp/one"), f"/proc/{os.getpid()}/ns/net"
    others = [
        Confinement(network="on", temp="/tmp/one"),
        Confinement(network="off"),
        Confinement(network="off", temp="/tmp/two"),
    ]
    for other in others[:2]:
        running(other, os.getpid())
    assert shared(one) is None and all(shared(other) is None for other in others)
    first, second = running(one, os.getpid()), running(one, os.getpid())
    assert shared(one) == SharedNetwork(path, os.readlink(path)) and all(shared(other) is None for other in others)
    first()
    assert shared(one) is not None
    second()
    second()
    assert shared(one) is None


def test_a_network_is_there_while_its_path_leads_to_it() -> None:
    path = f"/proc/{os.getpid()}/ns/net"
    assert SharedNetwork(path, os.readlink(path)).is_there()
    assert not SharedNetwork(path, "net:[1]").is_there() and not SharedNetwork("/proc/0/ns/net", "").is_there()
