"""Downloads of large files, which survive a broken connection or a kill and are accepted only with the right hash.

What has arrived so far is in `PATH.partial`, and fetching again continues there. The file itself only appears whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO

from treadle.errors import NotFound, StorageError, TreadleError
from treadle.io.files import storage_error

if TYPE_CHECKING:
    import httpx2

PIECE = 1 << 20
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 120.0
MOST_TRIES = 5

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived, and the total if it is known."""
Written = Callable[[int], None]


def partial(path: str) -> str:
    return path + ".partial"


def fetch(url: str, path: str, sha256: str, progress: Progress) -> int:
    """Download `url` to `path` and return the size. Blocks.

    Raises NotFound when the server has no such file, StorageError when it cannot be fetched. A file with the wrong hash
    is a StorageError too, and is removed.
    """
    import httpx2

    timeout = httpx2.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS)
    with httpx2.Client(follow_redirects=True, timeout=timeout, headers={"accept-encoding": "identity"}) as client:
        for left in reversed(range(MOST_TRIES)):
            had = size_of(partial(path))
            try:
                _go_on(client, url, path, had, progress)
                break
            except httpx2.HTTPError as error:
                if not left or (size_of(partial(path)) == had and isinstance(error, httpx2.ConnectError)):
                    why = str(error) or type(error).__name__
                    hint = "what has arrived is kept: the same command continues from there"
                    raise StorageError(f"{url} could not be fetched: {why}", hint=hint) from error
    return finish(path, sha256)


def _go_on(client: httpx2.Client, url: str, path: str, had: int, progress: Progress) -> None:
    headers = {"range": f"bytes={had}-"} if had else {}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:  # nothing lies beyond what we have: the hash will tell whether it is whole
            return
        if response.status_code not in (200, 206):
            raise NotFound(f"{url} answered {response.status_code} {response.reason_phrase}")
        resumed = response.status_code == 206
        length = response.headers.get("content-length")
        total = int(length) + (had if resumed else 0) if length and length.isdigit() else None
        append(path, response.iter_bytes(), at=had if resumed else 0, progress=lambda size: progress(size, total))


def append(path: str, pieces: Iterable[bytes], *, at: int, progress: Written) -> None:
    """Write the pieces from byte `at` on; anything that was there is dropped."""
    place = partial(path)
    try:
        with _opened(place) as file:
            file.truncate(at)
            file.seek(at)
            for piece in pieces:
                file.write(piece)
                at += len(piece)
                progress(at)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise storage_error(error, place, "write") from error


def _opened(place: str) -> BinaryIO:
    return open(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")


def size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def finish(path: str, sha256: str) -> int:
    """Accept what has arrived as the file if its hash is right; otherwise remove it: any part may be wrong."""
    place = partial(path)
    try:
        with open(place, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            os.unlink(place)
            raise _another(path, found, sha256)
        os.replace(place, path)
        return os.path.getsize(path)
    except OSError as error:
        raise storage_error(error, place, "finish") from error


def _another(path: str, found: str, wanted: str) -> TreadleError:
    return StorageError(
        f"what was fetched for {os.path.basename(path)} is not what was pinned: its SHA-256 is {found}, not {wanted}",
        hint="it was removed; check the address and the hash",
    )
