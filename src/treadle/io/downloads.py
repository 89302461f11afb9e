"""Downloads of large files, which survive a broken connection or a kill and are accepted only with the right hash.

What has arrived so far is in `PATH.partial`, and fetching again continues there. The file itself only appears whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urljoin

from treadle.errors import NotFound, StorageError, TreadleError
from treadle.io.files import storage_error

if TYPE_CHECKING:
    from treadle.io.http import HttpClient, Response

PIECE = 1 << 20
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 120.0
MOST_TRIES = 5
MOST_REDIRECTS = 10

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have arrived, and the total if it is known."""
Written = Callable[[int], None]


def partial(path: str) -> str:
    return path + ".partial"


async def fetch(url: str, path: str, sha256: str, progress: Progress) -> int:
    """Download `url` to `path` and return the size.

    Raises NotFound when the server has no such file, StorageError when it cannot be fetched. A file with the wrong hash
    is a StorageError too, and is removed.
    """
    from treadle.io.http import BadAddress, CannotConnect, HttpClient, HttpError

    identity = {"accept-encoding": "identity"}
    client = HttpClient(identity, connect_seconds=CONNECT_SECONDS, idle_seconds=IDLE_SECONDS)
    for left in reversed(range(MOST_TRIES)):
        had = size_of(partial(path))
        try:
            await _go_on(client, url, path, had, progress)
            break
        except HttpError as error:
            if not left or (size_of(partial(path)) == had and isinstance(error, BadAddress | CannotConnect)):
                hint = "what has arrived is kept: the same command continues from there"
                raise StorageError(f"{url} could not be fetched: {error}", hint=hint) from error
        finally:
            await client.aclose()
    return await asyncio.to_thread(finish, path, sha256)


async def _go_on(client: HttpClient, url: str, path: str, had: int, progress: Progress) -> None:
    place, headers = url, {"range": f"bytes={had}-"} if had else {}
    for _ in range(MOST_REDIRECTS + 1):
        async with client.request("GET", place, headers=headers) as response:
            if not response.moved_to:
                return await _store(response, url, path, had, progress)
            place = urljoin(place, response.moved_to)
    raise StorageError(f"{url} redirects more than {MOST_REDIRECTS} times")


async def _store(response: Response, url: str, path: str, had: int, progress: Progress) -> None:
    if response.status == 416:  # nothing lies beyond what we have: the hash will tell whether it is whole
        return
    if response.status not in (200, 206):
        raise NotFound(f"{url} answered {response.status}")
    at = had if response.status == 206 else 0
    length = response.headers.get("content-length", "")
    total = int(length) + at if length.isdigit() else None
    with _appending(path, at, lambda size: progress(size, total)) as write:
        async for chunk in response.chunks():
            write(chunk)


def append(path: str, pieces: Iterable[bytes], *, at: int, progress: Written) -> None:
    """Write the pieces from byte `at` on; anything that was there is dropped."""
    with _appending(path, at, progress) as write:
        for piece in pieces:
            write(piece)


@contextmanager
def _appending(path: str, at: int, progress: Written) -> Iterator[Callable[[bytes], None]]:
    place = partial(path)
    try:
        with _opened(place) as file:
            file.truncate(at)
            file.seek(at)

            def write(piece: bytes) -> None:
                file.write(piece)
                progress(file.tell())

            yield write
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
