"""The image in the clipboard, as a file that a prompt can name."""

import os
import time

from treadle.errors import ConfigError, NotFound
from treadle.io.files import write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import find_outside, run_program

READERS = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
"""Programs that print the image: for Wayland, X11 and macOS."""
PNG = b"\x89PNG\r\n\x1a\n"
SECONDS = 5.0


def save_image() -> str:
    """The path of a new file with the clipboard's image."""
    there = [(find_outside(reader[0]), reader) for reader in READERS]
    there = [(path, reader) for path, reader in there if path is not None]
    if not there:
        names = ", ".join(reader[0] for reader in READERS)
        raise ConfigError("the clipboard cannot be read here", hint=f"install one of {names}; or name a file: @x.png")
    for path, reader in there:
        found = run_program([str(path), *reader[1:]], cwd="/", timeout=SECONDS)
        if found.code == 0 and found.stdout.startswith(PNG):
            folder = private_dir(os.path.join(state_dir(), "pasted"))
            file = os.path.join(folder, time.strftime("%Y%m%d-%H%M%S") + f"-{os.urandom(2).hex()}.png")
            write_atomic(file, found.stdout)
            return file
    raise NotFound("there is no image in the clipboard")
