"""A command's own view of the machine, made for real."""

import os
from pathlib import Path

import pytest

from treadle.errors import LocalError
from treadle.io.process import tree, view
from treadle.io.sandbox import methods

pytestmark = pytest.mark.skipif(not methods.available().divides, reason="needs overlays and namespaces")


def look(place: Path, script: str, *steps: tuple[str, str, str]) -> str:
    """What a script prints that sees `place` as a view made in these steps."""
    plan = {
        "place": os.fsencode(place),
        "user": os.geteuid() != 0,
        "scope": False,
        "steps": [(kind, os.fsencode(source), os.fsencode(path)) for kind, source, path in steps],
    }
    read, write = os.pipe()
    with tree.spawn(["sh", "-c", script], cwd=str(place.parent), stdout=write, stderr=write, view=plan) as running:
        os.close(write)
        running.wait(30)
    with os.fdopen(read) as said:
        return said.read()


def test_files_are_seen_through_an_overlay_and_not_written(tmp_path: Path) -> None:
    there, place = tmp_path / "there: with, signs\\", tmp_path / "place"
    there.mkdir()
    place.mkdir()
    (there / "file").write_text("content\n")
    overlay = (view.OVERLAY, str(there), "root/there")
    said = look(place, "cat place/root/there/file; echo x > place/root/there/file", overlay)
    assert said.startswith("content") and "Read-only file system" in said
    assert os.listdir(place) == [], "others see nothing of it"
    assert (there / "file").read_text() == "content\n"


def test_links_directories_and_single_files_are_made_as_told(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "file").write_text("content\n")
    steps = [
        (view.DIRECTORY, "", "root/d"),
        (view.LINK, "d", "root/l"),
        (view.BIND, str(tmp_path / "file"), "root/d/f"),
        (view.OVERLAY, str(tmp_path / "missing"), "root/gone"),
    ]
    said = look(tmp_path / "place", "cat place/root/l/f; ls place/root place/root/gone", *steps)
    assert said.split() == ["content", "place/root:", "d", "gone", "l", "place/root/gone:"]


def test_a_command_whose_view_cannot_be_made_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="its view of the machine cannot be made"):
        look(tmp_path / "missing", "true")
