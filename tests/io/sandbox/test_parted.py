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
