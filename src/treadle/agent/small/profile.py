"""The parts of the profile, and the models it is used for."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from treadle.agent.providers.base import Provider
from treadle.errors import ConfigError

TOOLS = ("read_file", "edit_file", "write_file", "bash")
SMALL_WINDOW = 16_384
"""A model that takes at most this many tokens is small, whatever its name."""
_SIZE = r"(?:^|[-_:/ ])(\d+(?:\.\d+)?)b(?![a-z0-9])"
LARGEST = 9.0
"""Billions of parameters, as in names of models (`qwen2.5-coder:1.5b`)."""


class SmallProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Every part is on unless it is switched off."""

    tools: bool = True
    """Four tools instead of all."""
    prompt: bool = True
    """A short system prompt."""
    manual: bool = True
    """One example per tool instead of its description."""
    constrain: bool = True
    """The service can only produce what the schema of a call allows."""
    caps: bool = True
    """Arguments and replies have a maximum length."""
    path_first: bool = True
    """The file's path is the first argument of a call."""
    one_step: bool = True
    """One call in each reply."""
    look_first: bool = True
    """Files that the prompt names are read, and the directory is listed, before the model is asked."""
    show_file: bool = True
    """After an edit, successful or not, the file is shown instead of the difference."""
    spell_out: bool = True
    """A wrong call is answered with the correct one."""
    vary: bool = True
    """After a repeated call the next must use another tool, sampled at a higher temperature."""
    repair: bool = True
    """An edit whose place is clear is made there, although blank lines or white space differ."""
    object: bool = True
    """A call that cannot help is sent back: one made before, one that overwrites a file, code that does not parse."""
    remind: bool = True
    """The task is repeated below the newest result."""
    cache: bool = True
    """The service caches what it has read of the conversation."""

    def without(self, *parts: str) -> SmallProfile:
        return msgspec.structs.replace(self, **dict.fromkeys(map(_known, parts), False))


PARTS = SmallProfile.__struct_fields__


def _known(part: str) -> str:
    name = part.strip().replace("-", "_")
    name = "repair" if name == "mend" else name  # what it was called until 0.2
    if name not in PARTS:
        raise ConfigError(f"the profile for small models has no part {part!r}", hint=f"there are {', '.join(PARTS)}")
    return name


def parse(setting: str) -> SmallProfile | None:
    """Parse `on`, `off`, or `on` without some parts: `-caps,-vary`. None is off."""
    word = setting.strip().lower()
    if word in ("on", "1", "true", "yes"):
        return SmallProfile()
    if word in ("off", "0", "false", "no"):
        return None
    parts = [part.strip() for part in word.split(",")]
    if not all(part.startswith("-") for part in parts):
        raise ConfigError(f"small is {setting!r}", hint="write on, off, or the parts to leave out: -caps,-vary")
    return SmallProfile().without(*(part[1:] for part in parts))


def is_small(vendor: str, model: str, window: int | None) -> bool:
    """By the context size if it is known, else by the size in the name. A local model of unknown size is small."""
    if window is not None and window <= SMALL_WINDOW:
        return True
    name = model.lower()
    if "b" in name and (sizes := [float(size) for size in re.findall(_SIZE, name)]):
        return max(sizes) <= LARGEST
    return vendor == "local"


def chosen(setting: Any, vendor: str, model: str, window: int | None) -> SmallProfile | None:
    """What was asked for; otherwise, what suits the model."""
    if setting is not None:
        return parse(str(setting))
    return SmallProfile() if is_small(vendor, model, window) else None


def small_tools(provider: Provider) -> tuple[str, ...] | None:
    """The tools that a session with this provider offers by default; None: all."""
    return TOOLS if (profile := _profile_of(provider)) and profile.tools else None


def small_persona(provider: Provider) -> str | None:
    """The system prompt of a session with this provider by default; None: the usual one."""
    if not (profile := _profile_of(provider)) or not profile.prompt:
        return None
    from treadle.agent.small.words import PERSONA

    return PERSONA


def _profile_of(provider: Provider) -> SmallProfile | None:
    found = getattr(provider, "profile", None)
    return found if isinstance(found, SmallProfile) else None
