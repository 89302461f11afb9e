"""What the build adds: man pages, completions and schemas that `make dist` has written, and the project's addresses.

The address of the repository is in `TREADLE_PROJECT_URL`, which the release sets. With it the package has project URLs,
and the README's links, pictures and clone line lead there. Without it there are no URLs, and the README is as it is.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PLACES = {
    "Homepage": "",
    "Documentation": "/tree/{tag}/docs",
    "Repository": "",
    "Issues": "/issues",
    "Changelog": "/blob/{tag}/CHANGELOG.md",
    "Security": "/blob/{tag}/SECURITY.md",
}
PLACEHOLDER = "TREADLE_PROJECT_URL"
LINK = re.compile(r'(\]\(|src=")(?!https?:|#|mailto:)([^)"\s]+)')


class ShareHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        share = Path(self.root) / "build" / "share"
        for path in share.rglob("*") if share.is_dir() else ():
            if path.is_file():
                build_data["shared_data"][str(path)] = f"share/{path.relative_to(share)}"


class AddressHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        readme = (root / "README.md").read_text(encoding="utf-8")
        url = os.environ.get(PLACEHOLDER, "").rstrip("/")
        if url:
            version = re.search(r'__version__ = "(.+)"', (root / "src/treadle/__init__.py").read_text(encoding="utf-8"))
            assert version is not None
            readme = absolute(readme, url, f"v{version[1]}")
            metadata["urls"] = {name: url + place.format(tag=f"v{version[1]}") for name, place in PLACES.items()}
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}


def absolute(readme: str, url: str, tag: str) -> str:
    """The text with every relative link and picture leading to this tag of the repository, and the clone line to it."""

    def there(found: re.Match[str]) -> str:
        kind = "raw" if Path(found[2]).suffix in (".svg", ".png") else "blob"
        return f"{found[1]}{url}/{kind}/{tag}/{found[2]}"

    return LINK.sub(there, readme).replace(PLACEHOLDER, url)
