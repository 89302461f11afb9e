"""The order of the mounts: what may not be written or read comes after what may."""

from pathlib import Path
from typing import Any

import pytest

from treadle.io.sandbox import bubblewrap
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
