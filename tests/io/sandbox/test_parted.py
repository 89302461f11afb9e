"""What is shown, and which sockets and FIFOs are covered; that they then cannot be reached is in tests/safety."""

import os
import socket
from pathlib import Path

import pytest

from treadle.errors import LocalError
from treadle.io.sandbox import parted


def steps(**more: object) -> list[tuple[str, str, str]]:
    plan = parted.MachineView(scope=False, **more).plan()["steps"]  # type: ignore[arg-type]
    assert isinstance(plan, list)
    return [(kind, os.fsdecode(source), os.fsdecode(path)) for kind, source, path in plan]


def test_everything_at_the_root_is_shown_but_what_a_sandbox_has_of_its_own() -> None:
    shown = steps()
    assert {path for _, _, path in shown if path.count("/") == 1} == {
        f"root/{name}" for name in os.listdir("/") if os.path.exists(f"/{name}") or os.path.islink(f"/{name}")
    }
    own = {path for kind, _, path in shown if kind == "directory"}
    assert {f"root/{name}" for name in ("proc", "sys", "dev", "tmp", "run")} <= own


def test_a_directory_in_tmp_is_taken_from_an_overlay_of_its_own(tmp_path: Path) -> None:
    place = str(tmp_path)
    made = parted.MachineView([place, place], scope=False)
    assert made.source(place) == os.path.join(made.place, "shown/0") and made.source("/other") == "/other"
    assert steps(shown=[place])[-1] == ("overlay", place, "shown/0")


def test_a_machine_with_too_many_mounts_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parted, "MOST", 3)
    with pytest.raises(LocalError, match="too many mounts"):
        parted.MachineView(scope=False)


def test_open_sockets_and_fifos_in_writable_places_are_found_and_dead_sockets_are_not(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["directory-with-a-long-name"] * 6)
    deep.mkdir(parents=True)
    assert parted.left_inside([str(tmp_path)]) == []
    here = os.getcwd()
    os.chdir(deep)  # the whole path is longer than an address may be
    try:
        with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
            stream.bind("stream")
            datagrams.bind("datagrams")
            stream.listen()
            os.mkfifo("fifo")
            Path("file").write_text("")
            found = parted.left_inside([str(tmp_path), str(deep)])
            assert found == [str(deep / name) for name in ("datagrams", "fifo", "stream")]
            with pytest.raises(BlockingIOError):
                stream.setblocking(False)
                stream.accept()
    finally:
        os.chdir(here)
    assert parted.left_inside([str(tmp_path), str(deep)]) == [str(deep / "fifo")]


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "proc" / "self"
    place.mkdir(parents=True)
    monkeypatch.setattr(parted, "PROC", str(place.parent))
    return place


@pytest.mark.parametrize(("rights", "can_mount"), [("000001ffffffffff", True), ("00000000a80425fb", False)])
def test_a_directory_with_mounts_in_it_is_shown_with_them_or_in_parts(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rights: str, can_mount: bool
) -> None:
    top = tmp_path / "machine"
    for name in ("place/disk", "place/plain", "place/stick", "stick"):
        (top / name).mkdir(parents=True)
    (top / "place" / "file").touch()
    (top / "place" / "link").symlink_to("file")
    for name in ("place/pipe", "pipe"):
        os.mkfifo(top / name)
    mounts = {"place/disk": "xfs", "place/file": "ext4", "place/stick": "vfat", "stick": "squashfs"}
    lines = [f"5 1 8:2 / {top}/{name} rw - {kind} /dev/sdb rw\n" for name, kind in mounts.items()]
    (proc / "mountinfo").write_text("".join(lines))
    (proc / "status").write_text(f"Name:\tx\nCapEff:\t{rights}\n")
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 1)
        assert not parted._can_mount()
    can_mount = can_mount and os.geteuid() == 0
    monkeypatch.setattr(parted, "OWN", ())
    monkeypatch.setattr(parted, "MACHINE", str(top))
    found = [
        (kind, source.removeprefix(f"{top}/place"), path.removeprefix(f"root{top}/place"))
        for kind, source, path in steps()
    ]
    inner = [("overlay", "/disk", "/disk"), ("bind", "/file", "/file"), ("overlay or bind", "/stick", "/stick")]
    last = ("overlay or bind", f"{top}/stick", f"root{top}/stick")
    if can_mount:
        assert found == [("overlay", "", ""), *inner, last]
    else:
        link, plain = ("link", "file", "/link"), ("overlay", "/plain", "/plain")
        assert found == [("directory", "", ""), *inner[:2], link, plain, inner[2], last]
    made = parted.MachineView(scope=True, network="/proc/1/ns/net")
    plan = made.plan()
    assert (plan["user"], plan["scope"], plan["network"]) == (not can_mount, True, b"/proc/1/ns/net")
    assert plan["place"] == os.fsencode(made.place) and made.root == f"{made.place}/root"
