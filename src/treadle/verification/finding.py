"""Finds the command that checks a project: in its settings, or by its build files."""

import os
import re
from collections.abc import Callable, Collection

from treadle.io.files import read_if_there

NONE = "none"
"""`[verify] check = "none"`: no command checks the project."""
_TEST = re.compile(r"(?:tests?/)?test[^/]*\.py")
_PYTEST = re.compile(r"^(?:import|from) pytest\b|^(?:async )?def test_", re.M)
READ_MOST = 20
BY_FILE = {"Cargo.toml": "cargo test", "go.mod": "go test ./..."}
"""What checks a project that has such a file."""


def check_command(files: Collection[str], text: Callable[[str], str | None]) -> str:
    """The command that tests a project with these files; empty when none is known."""
    makefile = text("Makefile") or text("makefile") or ""
    for target in ("test", "check"):
        if re.search(rf"(?m)^{target}\s*:(?!=)", makefile):
            return f"make {target}"
    if (package := text("package.json")) and _has_script(package):
        return "npm test"
    for file, command in BY_FILE.items():
        if file in files:
            return command
    if any("pytest" in (text(name) or "") for name in ("pyproject.toml", "tox.ini", "setup.cfg", "pytest.ini")):
        return "python3 -m pytest"
    tests = sorted(path for path in files if _TEST.fullmatch(path))
    if any(_PYTEST.search(text(path) or "") for path in tests[:READ_MOST]):
        return "python3 -m pytest"
    return "python3 -m unittest" if tests else ""


def _has_script(package: str) -> bool:
    """Whether a `package.json` says how its tests are run."""
    import json  # imported late: most runs read none

    try:
        found = json.loads(package)
    except (ValueError, RecursionError):
        return False
    for key in ("scripts", "test"):
        found = found.get(key) if isinstance(found, dict) else None
    return isinstance(found, str) and bool(found) and "no test specified" not in found


def project_check(files: Collection[str], text: Callable[[str], str | None]) -> tuple[str, str]:
    """The check and the set-up of a project: of its settings, or what is found. The check may be NONE or empty."""
    if not (written := text(os.path.join(".treadle", "config.toml"))):
        return check_command(files, text), ""
    from treadle.verification.judge import settings_of  # imported late: most projects have no such file

    settings = settings_of(written)
    return settings.check or check_command(files, text), settings.setup


def check_on_disk(top: str) -> tuple[str, str]:
    """`project_check` of a directory. Blocks."""

    def text(name: str) -> str:
        return (read_if_there(os.path.join(top, name)) or b"").decode(errors="replace")

    folders = [folder for folder in ("", "tests/", "test/") if os.path.isdir(os.path.join(top, folder))]
    names = [f"{folder}{name}" for folder in folders for name in os.listdir(os.path.join(top, folder))]
    return project_check(names, text)
