"""Makes a repository with a first commit of files that we have just written, for demonstrations."""

import os
import time
from collections.abc import Mapping

from treadle.errors import WorkspaceError
from treadle.io.opening import write
from treadle.workspace.git import create
from treadle.workspace.user_repository import UserRepository

WHO = "demo <demo@example.invalid>"


def first_commit(place: str, files: Mapping[str, bytes], message: str) -> str:
    """Make the directory `place` with these files, all committed. Returns the commit."""
    os.makedirs(place)
    create("init", "--quiet", place, cwd=place)
    user = UserRepository.at(place)
    if user is None:
        raise WorkspaceError(f"git made no repository in {place}")
    text = message.encode()
    parts = [b"commit %s\ncommitter %s %d +0000\n" % (user.head().encode(), WHO.encode(), time.time())]
    parts.append(b"data %d\n%s\n" % (len(text), text))
    for name, data in files.items():
        write(os.path.join(place, name), data)
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(data), data))
    user.run("fast-import", "--quiet", stdin=b"".join(parts))
    user.run("read-tree", "HEAD")
    return user.run("rev-parse", "HEAD").stdout.decode().strip()
