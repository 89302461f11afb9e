"""Reads the settings of terminals from a file: `heimdall.toml`, as other supervisors of this protocol do, or our own.

Only the first file found is used: the one named on the command line, `./heimdall.toml`,
`~/.config/heimdall/heimdall.toml`, the table `[terminal]` of the user's own configuration. A file in the working
directory may have come with a repository, so only its harmless settings are used.
"""

import os

from treadle.errors import ConfigError
from treadle.io import paths
from treadle.io.files import read
from treadle.light import Any
from treadle.terminal.settings import CLASSIFIERS, POLICIES, TerminalSettings

NAME = "heimdall.toml"
HARMLESS = frozenset(
    ("scrollback_bytes", "classifier", "kill_process_group", "log_level", "resize_policy", "linger")
    + ("detach_key", "prefix_key", "bar")
)
PLAIN = ("session_env_var", "log_file", "term", "notify", *sorted(HARMLESS - {"classifier"}))


def load(settings: TerminalSettings, named: str = "") -> list[str]:
    """Put the configuration into `settings`. Returns messages about what was ignored."""
    path, body = _find(named)
    if path is None:
        return []
    ignored = []
    if not named and path == os.path.abspath(NAME):
        risky = sorted(
            name for name in body if name not in HARMLESS and (name in PLAIN or name in ("env", "socket_dir"))
        )
        ignored = [f"{path}: {name} is ignored unless you say --config {NAME}" for name in risky]
        body = {name: value for name, value in body.items() if name in HARMLESS}
    for name in PLAIN:
        if name in body:
            value, kind = body[name], type(getattr(settings, name))
            if type(value) is not kind and (kind, type(value)) != (float, int):
                raise ConfigError(f"{path}: {name} is {value!r}, which has the wrong type")
            setattr(settings, name, os.path.expanduser(str(value)) if name == "log_file" else value)
    if settings.log_level not in ("trace", "debug", "info", "warn", "error", "off"):
        raise ConfigError(f"{path}: log_level cannot be {settings.log_level!r}", hint="debug, info, warn, error or off")
    settings.log_level = "debug" if settings.log_level == "trace" else settings.log_level
    if settings.resize_policy not in POLICIES:
        raise ConfigError(f"{path}: resize_policy cannot be {settings.resize_policy!r}", hint=", ".join(POLICIES))
    if "socket_dir" in body:
        settings.directory = os.path.expanduser(str(body["socket_dir"]))
    if "classifier" in body:
        _classifier(settings, path, body["classifier"])
    if "env" in body:
        _environment(settings, path, body["env"])
    return ignored


def _find(named: str) -> tuple[str | None, dict[str, Any]]:
    if named:
        return named, _read(named)
    for path in (os.path.abspath(NAME), os.path.expanduser(f"~/.config/heimdall/{NAME}")):
        if os.path.exists(path):
            return path, _read(path)
    own = paths.config_file()
    if os.path.exists(own):
        table = _read(own).get("terminal")
        if isinstance(table, dict):
            return own, table
    return None, {}


def _read(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _classifier(settings: TerminalSettings, path: str, value: object) -> None:
    """A name, or a table with exactly one name and that classifier's thresholds."""
    options: object = {}
    if isinstance(value, dict):
        if len(value) != 1:
            raise ConfigError(
                f"{path}: classifier must be a name or a table with exactly one of {', '.join(CLASSIFIERS)}"
            )
        [(value, options)] = value.items()
    if value not in CLASSIFIERS or not isinstance(options, dict):
        raise ConfigError(f"{path}: classifier {value!r} is not one of {', '.join(CLASSIFIERS)}")
    settings.classifier = str(value)
    for name in ("idle_threshold_ms", "debounce_ms"):
        if name in options:
            setattr(settings, name, options[name])


def _environment(settings: TerminalSettings, path: str, value: object) -> None:
    try:
        assert isinstance(value, list)
        settings.env = [(str(entry["name"]), str(entry["value"])) for entry in value]
    except (AssertionError, KeyError, TypeError):
        raise ConfigError(f"{path}: env must be a list of tables, each with name and value") from None
