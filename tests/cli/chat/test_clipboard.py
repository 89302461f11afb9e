"""The image in the clipboard becomes a file, whichever program of the desktop prints it."""

from pathlib import Path

import pytest

from treadle.cli.chat.screen import PNG, save_image
from treadle.errors import ConfigError, NotFound
from treadle.io.paths import state_dir


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    return place


def reader(place: Path, name: str, body: str) -> None:
    (place / name).write_text(f"#!/bin/sh\n{body}\n")
    (place / name).chmod(0o755)


def test_the_first_program_that_has_an_image_gives_it(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(PNG + b"rest\x00\xff")
    reader(programs, "wl-paste", "echo no image; exit 1")
    reader(programs, "xclip", f"test $5 = -out && exec /bin/cat {tmp_path}/image")
    kept = Path(save_image())
    assert kept.read_bytes() == PNG + b"rest\x00\xff" and kept.suffix == ".png"
    assert kept.parent == Path(state_dir(), "pasted") and kept.parent.stat().st_mode & 0o077 == 0
    assert save_image() != str(kept), "each is a file of its own"


def test_words_in_the_clipboard_are_no_image(programs: Path) -> None:
    reader(programs, "wl-paste", "echo words")
    with pytest.raises(NotFound, match="no image in the clipboard"):
        save_image()


def test_without_such_a_program_it_says_which_to_install(programs: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        save_image()
    assert "wl-paste, xclip, pngpaste" in str(caught.value.hint)
