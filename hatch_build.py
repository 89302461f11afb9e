"""Man pages and completion scripts in the wheel, where `make dist` has written them: in build/share."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShareHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        share = Path(self.root) / "build" / "share"
        for path in share.rglob("*") if share.is_dir() else ():
            if path.is_file():
                build_data["shared_data"][str(path)] = f"share/{path.relative_to(share)}"
