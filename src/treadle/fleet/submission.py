"""Submits orders, with the defaults of their repository, and sends repositories to nodes that have no copy."""

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, StorageError, WorkspaceError
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import STATE, TIMEOUT, Bus, Stale, Unreachable
from treadle.fleet.orders import checked, encode, new_id, read_spec
from treadle.fleet.run import trees
from treadle.fleet.run.trees import head_commit
from treadle.host.order import read_tree
from treadle.io import scratch
from treadle.settings import trust
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import HERE, OURS, OrderRequest, Spec, read_request
from treadle.workspace import checkouts, remotes
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository

# Sends a repository to nodes that have no copy: everything up to the order's base commit, in one object.


async def send(bus: Bus, spec: Spec) -> Spec:
    """The order, with its repository stored beside it."""
    user = await asyncio.to_thread(checkouts.find, spec.root)
    if user is not None and not spec.base:
        await asyncio.to_thread(trees.see_branch, user, spec)
        spec = replace(spec, base=await asyncio.to_thread(trees.commit_of, user, trees.beginning(spec)))
    if user is None or not spec.base:
        raise WorkspaceError(f"{spec.root} is not in a git repository, so it cannot be sent", hint="leave out --bundle")
    name = f"source.{spec.base}"
    data = await asyncio.to_thread(_bundle, user, spec.base)
    await streams.put(bus, name, data)
    return replace(spec, bundle=name)


def _bundle(user: UserRepository, base: str) -> bytes:
    """Made in a store of ours that borrows the objects: a bundle needs a ref, and that is not to be the user's."""
    with scratch.directory("bundle") as here:
        place, lenders = os.path.join(here, "store"), user.object_places()
        store = Store.make(place, lenders=lenders, algorithm="sha1" if len(base) == 40 else "sha256")
        ref = f"refs/treadle/{base}"
        store.set_ref(ref, base)
        return store.bundle(ref)


# What a repository says of its own orders, in `.treadle/fleet.toml`: `[project]` for all, `[templates.NAME]` for
# some.
#
#     [project]
#     agent = "claude"
#     verify = "make test"
#     limits = { tokens = 500000 }
#
#     [templates.fix]
#     retry_on = ["verify"]
#
# What the submitter says beats the template, which beats the project. The file comes with a cloned repository: until
# a person trusts it (`treadle trust`), only what narrows an order counts, and what does not is reported.

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
        raise ConfigError(f"the template {template!r} is in {path}, which is not trusted", hint=hint)
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
        raise ConfigError(f"{where}: `{wrong[0]}` cannot have a default - at `$.{wrong[0]}`")
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


# Submits orders: stored on return; the same key always gives the same order, and is refused for another.

IN_FLIGHT = 64
SUBMIT_SECONDS = 20.0
"""How long submitting is tried: a cluster that lost a server stores nothing for some seconds."""


class KeyUsed(LocalError):
    """The idempotency key was used before, for another order."""

    code = "key_used"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """An order that is stored. `new` is False when one with the same key was stored before."""

    id: str
    new: bool
    ignored: tuple[str, ...] = ()
    """What the repository's own file asked for and was not given."""


def made(request: OrderRequest, *, by: str) -> Spec:
    """The order that is submitted for what was asked. Looks for the commit that the directory is at.

    Work that is to land starts from its branch as it is when the order is placed, so that it is not behind already.
    """
    given = msgspec.structs.asdict(replace(request, key="", template=""))
    root = os.path.abspath(os.path.expanduser(request.root)) if request.root else ""
    if request.land:
        given["land"] = _branch(request.land, root)
    fixed = root and not request.in_place and not request.land
    base = _named_base(request.base, root) if request.base else head_commit(root) if fixed else ""
    more = {"id": new_id(request.key), "created": time.time(), "by": by, "root": root, "base": base}
    more |= {"asked": _digest(request)} if request.key else {}
    return checked(Spec(**{**given, **more}))


def _named_base(base: str, root: str) -> str:
    """The commit that is meant by a name; as it is given where that cannot be seen from here."""
    user = None if _COMMIT.fullmatch(base) else checkouts.find(root) if os.path.isdir(root) else None
    return base if user is None else trees.commit_of(user, base)


_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def _branch(land: str, root: str) -> str:
    """The branch that is meant, which is there as far as can be seen from here."""
    user = checkouts.find(root) if os.path.isdir(root) else None
    if user is None:
        if land == HERE:
            raise ConfigError("this directory is not in a git repository", hint="name it: --land BRANCH")
        return land
    branch = checkouts.branch_here(user) if land == HERE else land
    remote, _ = remotes.split(branch)
    if remote:
        remotes.Remote(user, remote)  # its branch is looked for when the order is placed
    else:
        trees.commit_of(user, remotes.ref_of(branch))
    return branch


def _digest(request: OrderRequest) -> str:
    """Of all that was asked for but the start time, which may have been given as a time from now."""
    plain = msgspec.structs.replace(request, key="", not_before=0.0)
    return hashlib.blake2b(msgspec.json.encode(plain, order="deterministic"), digest_size=16).hexdigest()


async def submit(bus: Bus, specs: Sequence[Spec]) -> list[Given]:
    """Store these orders. Returns when all are durable; repeating one returns the first."""
    for spec in specs:
        checked(spec)
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(spec: Spec) -> Given:
        async with slots:
            return await _submit_one(bus, spec)

    return list(await asyncio.gather(*(one(spec) for spec in specs)))


async def _submit_one(bus: Bus, spec: Spec) -> Given:
    data = encode(spec)
    began, tried, last = time.monotonic(), 0, -1
    while True:
        asked = time.monotonic()
        try:
            await bus.put(keys.SPEC(spec.id), data, expect=0)
            return Given(id=spec.id, new=True)
        except Stale:
            entry = await bus.get(keys.SPEC(spec.id))
            before = read_spec(entry.value).asked if entry is not None else ""
            if before and spec.asked and before != spec.asked:
                hint = "use another key; the same key is for submitting the same once more"
                raise KeyUsed(f"this key was used before for another order, {spec.id}", hint=hint) from None
            # When an answer was lost on the way, what is stored may be ours, from the earlier try.
            return Given(id=spec.id, new=tried > 0 and entry is not None and entry.value == data)
        except Unreachable:
            if time.monotonic() - began > SUBMIT_SECONDS:
                raise
            tried += 1
            if time.monotonic() - asked > TIMEOUT / 2:
                last = await refuse_if_stuck(bus, spec.id, last)
            await asyncio.sleep(0.3)


async def refuse_if_stuck(bus: Bus, name: str, before: int) -> int:
    """A server whose disk is full ignores writes and answers everything else; one that is slow stores what others give
    it. Returns its last revision, to be compared with at the next try that gets no answer; -1 when it does not say."""
    try:
        reply = await bus.request(f"$JS.API.STREAM.INFO.{STATE}", timeout=1.0)
        last = int(msgspec.json.decode(reply.data)["state"]["last_seq"])
    except (Unreachable, KeyError):
        return -1  # it is away or has no leader now; another try may succeed
    if last != before:
        return last
    raise StorageError(
        f"the engine answers, but has stored nothing since the last try, so the order {name} was not submitted",
        hint="`treadle fleet status` on its machine says whether its disk is full; earlier orders are stored",
    )
