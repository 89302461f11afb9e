"""`[sandbox]` of the settings. `sandbox = true` and `sandbox = false` are short for its `use`."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

Size: TypeAlias = Annotated[str, Meta(pattern=r"^(off|\d+ ?([KMGT]B?)?)$", description="off, or as 4GB")]
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    use: bool | None = None
    """True: always, else refuse to run; False: never; None: in auto-edit and full-auto, if the machine supports it."""
    read: tuple[str, ...] = ()
    """Credentials and histories in the home directory that confined programs may read after all, such as `~/.ssh`."""
    sockets: tuple[str, ...] = ()
    """Unix sockets outside that confined programs may reach: absolute, below `~`, or the `$VARIABLE` that names one."""
    memory: Size | None = None
    """How much memory one command and all that it starts may use: `4GB`, `off`; None: 90 % of the machine's."""
    processes: Annotated[int, Meta(ge=0)] | None = None
    """How many processes and threads, at once; 0: no limit; None: 8192."""
    disk: Size | None = None
    """How much one command may write; None: until little is left on the disk; `off`: all of it."""


def size(text: str | None) -> int | None:
    """Bytes; 0 for `off`."""
    if text is None or text == "off":
        return None if text is None else 0
    number = text.rstrip("BKMGT ")
    return int(number) << UNITS[text[len(number) :].strip(" B")]


def written_out(table: dict[str, Any]) -> dict[str, Any]:
    """A table of settings with the short form replaced."""
    use = table.get("sandbox")
    return {**table, "sandbox": {"use": use}} if isinstance(use, bool) else table
