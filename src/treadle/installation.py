"""How this Treadle was installed, so that it can say the exact command that adds an optional part.

`pip install 'treadle[fleet]'` is wrong for a program installed by uv or pipx, and for one that came from a clone.
"""

import os
import sys

PROVIDES = {
    "sandbox": "sandlock",
    "signing": "cryptography",
    "schema": "jsonschema_rs",
    "screen": "pyghostty",
    "fleet": "nats",
    "otel": "opentelemetry.sdk",
}
"""Optional part -> the module by which one sees that it is installed."""


def has(extra: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(PROVIDES[extra]) is not None
    except ModuleNotFoundError:  # a part of a package that is not here
        return False


def adding(*extras: str) -> str:
    """The command that adds these optional parts to this installation, for a person to type."""
    import shlex

    return shlex.join(argv_adding(*extras))


def argv_adding(*extras: str) -> list[str]:
    """The same as a list. uv and pipx install anew, so there the parts that are already here are named again."""
    tool = _tool()
    if tool in ("uv", "pipx"):
        wanted = [extra for extra in PROVIDES if extra in extras or has(extra)]
        return [*(["uv", "tool"] if tool == "uv" else ["pipx"]), "install", "--force", _requirement(wanted)]
    return [sys.executable, "-m", "pip", "install", _requirement(list(extras))]


def _tool() -> str:
    """uv and pipx leave a file of theirs in the environments that they make."""
    for tool, mark in {"uv": "uv-receipt.toml", "pipx": "pipx_metadata.json"}.items():
        if os.path.exists(os.path.join(sys.prefix, mark)):
            return tool
    return "pip"


def _requirement(extras: list[str]) -> str:
    source = _source()
    return f"treadle[{','.join(extras)}]" + (f" @ {source}" if source else "")


def _source() -> str:
    """The address that it was installed from; empty when that was a package index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("treadle").read_text("direct_url.json")
        address = json.loads(text)["url"] if text else ""
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""
    return address if isinstance(address, str) else ""
