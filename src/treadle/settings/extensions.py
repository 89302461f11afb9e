"""Agents, doors and forges of other distributions, found by their entry points.

Until one is used, only what its distribution says of itself is read. None is loaded that the person's own settings do
not name with its version, so that neither a repository nor an update brings code in.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from treadle.errors import ConfigError
from treadle.io.paths import here
from treadle.settings import config

ExtensionKind: TypeAlias = Literal["agents", "doors", "forges"]
KINDS: tuple[ExtensionKind, ...] = get_args(ExtensionKind)


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    kind: ExtensionKind
    name: str
    place: str
    """`module:attribute`."""
    distribution: str
    version: str

    @property
    def allowed(self) -> bool:
        return config.load(here()).settings.extensions.get(self.distribution) == self.version


def extensions(kind: ExtensionKind) -> list[Extension]:
    """Those that are installed beside us, and say their name and version. Nothing of theirs is imported."""
    found = (_described(kind, each) for each in entry_points(group=f"treadle.{kind}"))
    return [each for each in found if each.distribution and each.version]


def load(kind: ExtensionKind, name: str, wanted: type[Any]) -> Any:
    """What the entry point of this name is, or None when there is none. Raises unless the person allows it."""
    found = [each for each in extensions(kind) if each.name == name]
    if not found:
        return None
    one = found[0]
    where = f"{name} of {one.distribution} {one.version}"
    if len(found) > 1:
        names = " and ".join(each.distribution for each in found)
        raise ConfigError(f"{names} both have {name!r} among their {kind}", hint="uninstall one of them")
    if not one.allowed:
        hint = f"if you trust it: treadle extensions allow {one.distribution}"
        raise ConfigError(f"{where} is not allowed by your settings in this version", hint=hint)
    try:
        made = EntryPoint(name, one.place, f"treadle.{kind}").load()
    except Exception as error:  # whatever the code of others raises
        raise ConfigError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(made, wanted):
        raise ConfigError(f"{where} is not a {wanted.__name__}")
    return made


def _described(kind: ExtensionKind, entry: EntryPoint) -> Extension:
    about: Any = entry.dist.metadata if entry.dist is not None else {}
    name, version = (about[key] if key in about else "" for key in ("Name", "Version"))
    return Extension(kind=kind, name=entry.name, place=entry.value, distribution=name, version=version)
