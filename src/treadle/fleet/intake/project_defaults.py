"""What a repository says of its own orders, in `.treadle/fleet.toml`: `[project]` for all, `[templates.NAME]` for some.

    [project]
    agent = "claude"
    verify = "make test"
    limits = { tokens = 500000 }

    [templates.fix]
    retry_on = ["verify"]

What the submitter says beats the template, which beats the project. The file comes with a cloned repository: until a
person trusts it (`treadle trust`), only what narrows an order counts, and what does not is reported.
"""

import os
from collections.abc import Callable
from typing import Any

from treadle.errors import ConfigError
from treadle.host.order import read_tree
from treadle.settings import trust
from treadle.wire.fleet.orders import HERE, OURS, OrderRequest, read_request
from treadle.workspace import checkouts

FILE = ".treadle/fleet.toml"
NOT_HERE = frozenset(("task", "root", "repo", "base", "key", "template", "continues", "comments", "race"))
"""Fields that are about one order and not about all of a project."""
NARROWING = ("claims", "limits")
NARROWING_POLICY = ("disallowed_tools", "deny_read", "deny_write", "deny_network", "require_approval_for")
Warn = Callable[[str], None]


def completed(tree: Any, where: str, warn: Warn) -> OrderRequest:
    """An order as it was given, with what its repository says of orders. `where` begins the message when it is none."""
    request = read_request(tree, where)
    root = os.path.abspath(os.path.expanduser(request.root)) if request.root else ""
    user = checkouts.find(root) if root and os.path.isdir(root) else None
    path = os.path.join(user.top, FILE) if user is not None else ""
    if user is None or not os.path.isfile(path):
        if request.template:
            raise ConfigError(f"there is no template {request.template!r}", hint=f"{FILE} of the repository has them")
        return request
    defaults = _read_defaults(path, user.top, request.template, warn)
    if request.land == HERE and defaults.get("land"):
        tree = {name: value for name, value in tree.items() if name != "land"}
    return read_request(_over(defaults, tree), f"{where}, with {path}") if defaults else request


def described(top: str, warn: Warn) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What holds for orders about the checkout at `top`: the fields of all, and those of each template."""
    path = os.path.join(top, FILE)
    if not os.path.isfile(path):
        return {}, {}
    project = _read_defaults(path, top, "", warn)
    templates = _tables(path)["templates"] if trust.is_trusted(top) else {}
    return project, {name: _over(project, fields) for name, fields in templates.items()}


def _read_defaults(path: str, top: str, template: str, warn: Warn) -> dict[str, Any]:
    """The fields that the file gives to an order."""
    trusted = trust.is_trusted(top)
    if template and not trusted:
        hint = f"look at it, then `treadle trust {top}`"
        raise ConfigError(f"the template {template!r} is in {path}, which no one has trusted", hint=hint)
    try:
        tables = _tables(path)
        if template and template not in tables["templates"]:
            there = ", ".join(sorted(tables["templates"])) or "none"
            raise ConfigError(f"{path} has no template {template!r}", hint=f"there are: {there}")
        defaults = _over(tables["project"], tables["templates"].get(template, {}))
    except ConfigError as error:
        if trusted:
            raise
        warn(str(error))  # a mistake in a file that no one trusts must not keep people from working
        return {}
    if trusted:
        return defaults
    narrow = _narrowed(defaults)
    if ignored := sorted(name for name in defaults if defaults[name] != narrow.get(name)):
        warn(
            f"{path} is not trusted, so {', '.join(ignored)} of it does not count (`treadle trust {top}` changes that)"
        )
    return narrow


def _tables(path: str) -> dict[str, Any]:
    tree = read_tree(path)
    unknown = sorted(set(tree) - {"project", "templates"}) if isinstance(tree, dict) else ["it"]
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]!r} is neither [project] nor [templates.NAME]")
    project, templates = tree.get("project", {}), tree.get("templates", {})
    if not isinstance(templates, dict):
        raise ConfigError(f"{path}: templates have names: [templates.NAME]")
    for name, table in {
        "[project]": project,
        **{f"[templates.{name}]": one for name, one in templates.items()},
    }.items():
        _check(table, f"{path}: {name}")
    return {"project": project, "templates": templates}


def _check(table: Any, where: str) -> None:
    """Raise where it is not fields of an order that a project may say."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is not a table")
    if wrong := sorted(name for name in table if name in NOT_HERE or name in OURS):
        raise ConfigError(f"{where}: `{wrong[0]}` is given with each order - at `$.{wrong[0]}`")
    read_request({"task": "x", **table}, where)


def _narrowed(defaults: dict[str, Any]) -> dict[str, Any]:
    found = {name: defaults[name] for name in NARROWING if name in defaults}
    policy = {name: value for name, value in defaults.get("policy", {}).items() if name in NARROWING_POLICY}
    return {**found, "policy": policy} if policy else found


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both, where the second one counts; limits and policies are put together name by name."""
    both = {**below, **above}
    for name in ("limits", "policy"):
        if name in below and name in above:
            both[name] = {**below[name], **above[name]}
    return both
