"""Where programs in a sandbox keep what they otherwise write to the home directory, which cannot be written there.

What builds need offline stays where it is and is read from there. Where a tool may download, it downloads into the
session's own /tmp: what an agent can write, a build outside must not use.
"""

import os
from collections.abc import Mapping

from treadle.confinement import Confinement

CACHES = {
    "XDG_CACHE_HOME": ".cache",
    "PIP_CACHE_DIR": ".cache/pip",
    "npm_config_cache": ".cache/npm",
    "GOCACHE": ".cache/go-build",
    "UV_CACHE_DIR": ".cache/uv",
    "GRADLE_USER_HOME": ".gradle",
    "CHROME_CONFIG_HOME": ".config",
}
DOWNLOADS = {"go": ("GOMODCACHE", ".cache/go-mod"), "crates": ("CARGO_HOME", ".cargo")}
"""By group of the network: what is used from the home directory until the tool may download."""


def in_temp(env: Mapping[str, str], temp: str, confinement: Confinement) -> dict[str, str]:
    """The environment with caches in `temp`, except where a person chose a place. Values set by a sandbox around us
    are replaced, because its /tmp is not ours."""
    wanted = dict(CACHES)
    for group, (name, place) in DOWNLOADS.items():
        if confinement.network != "off" or group in confinement.hosts:
            wanted[name] = place
    moved = {
        name: os.path.join(temp, place) for name, place in wanted.items() if env.get(name) in (None, f"/tmp/{place}")
    }
    more = {"TMPDIR": temp}
    if "GRADLE_USER_HOME" in moved and os.path.isdir(before := os.path.expanduser("~/.gradle/caches/modules-2")):
        more.setdefault("GRADLE_RO_DEP_CACHE", os.path.dirname(before))
    if "GOMODCACHE" in moved:
        more["GOFLAGS"] = f"{env.get('GOFLAGS', '')} -modcacherw".strip()  # or it could not be removed afterwards
    return {**env, **moved, **more}


def prepare(temp: str) -> None:
    """Let cargo find a person's settings, mirrors among them, from its directory in this new /tmp."""
    settings = os.path.join(os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo"), "config.toml")
    if os.path.isfile(settings):
        own = os.path.join(temp, DOWNLOADS["crates"][1])
        os.mkdir(own)
        os.symlink(settings, os.path.join(own, "config.toml"))
