"""`[sandbox]` of the settings. `sandbox = true` and `sandbox = false` are short for its `use`."""

from typing import Any

import msgspec


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    use: bool | None = None
    """True: always, else refuse to run; False: never; None: in auto-edit and full-auto, if the machine supports it."""
    read: tuple[str, ...] = ()
    """Credentials and histories in the home directory that confined programs may read after all, such as `~/.ssh`."""
    sockets: tuple[str, ...] = ()
    """Unix sockets outside that confined programs may reach: absolute, below `~`, or the `$VARIABLE` that names one."""


def written_out(table: dict[str, Any]) -> dict[str, Any]:
    """A table of settings with the short form replaced."""
    use = table.get("sandbox")
    return {**table, "sandbox": {"use": use}} if isinstance(use, bool) else table
