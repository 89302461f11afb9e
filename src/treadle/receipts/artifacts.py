"""The files that a receipt names, copied out of the workspace before it is removed, and identified by their hash."""

import os
import re
import shutil
import stat
from collections.abc import Sequence

import msgspec

from treadle.io.files import sha256
from treadle.io.paths import private_dir
from treadle.wire.sidecar.receipts import Artifact

MOST_BYTES = 1024**3
MOST_FILES = 1000


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    path: str
    """The path by which the run named it."""
    copy: str | None = msgspec.field(default=None, name="kept")
    """Where the copy is."""
    sha256: str | None = None
    bytes: int | None = None
    problem: str | None = None
    """Why there is no copy."""


def collect(artifacts: Sequence[Artifact], root: str, directory: str) -> list[Collected]:
    """Copy them from the workspace at `root` into `directory`, which is created if there are any."""
    found = []
    left = MOST_BYTES
    for number, artifact in enumerate(artifacts):
        if number >= MOST_FILES:
            text = f"only the first {MOST_FILES} are kept"
            found.append(Collected(kind=artifact.kind, path=artifact.path, problem=text))
            continue
        found.append(_collect(artifact, root, os.path.join(directory, f"{number}-{_plain(artifact.path)}"), left))
        left -= found[-1].bytes or 0
    return found


def _collect(artifact: Artifact, root: str, target: str, room: int) -> Collected:
    def missing(problem: str) -> Collected:
        return Collected(kind=artifact.kind, path=artifact.path, problem=problem)

    if "\0" in artifact.path or not artifact.path:
        return missing("it is not the name of a file")
    # Resolved first, so that a link cannot bring out a file from outside the workspace.
    place, base = os.path.realpath(os.path.join(root, artifact.path)), os.path.realpath(root)
    if not place.startswith(f"{base.rstrip('/')}/"):
        return missing("it is not in the workspace")
    try:
        entry = os.lstat(place)
        if not stat.S_ISREG(entry.st_mode):
            return missing("it is not a file")
        if entry.st_size > room:
            return missing(f"it has {entry.st_size} bytes, and {room} are left for this run")
        private_dir(os.path.dirname(target))
        shutil.copyfile(place, target, follow_symlinks=False)
        os.chmod(target, 0o600)
    except OSError as error:
        return missing(f"it is not there: {error.strerror}")
    return Collected(kind=artifact.kind, path=artifact.path, copy=target, sha256=sha256(target), bytes=entry.st_size)


def _plain(path: str) -> str:
    return re.sub(r"[^\w.-]", "_", os.path.basename(path))[-100:] or "artifact"
