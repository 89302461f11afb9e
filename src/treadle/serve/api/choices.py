"""What can be chosen for a new order: agents and models of the nodes, repositories, branches, what a project says."""

import asyncio
import os
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from treadle.errors import TreadleError
from treadle.fleet import client
from treadle.fleet.intake.project_defaults import described
from treadle.serve.api.calls import Asking, call
from treadle.workspace import checkouts

SHOWN = 100
"""How many repositories, projects and branches are named."""


class AgentChoice(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    models: tuple[str, ...] = ()
    """Those that its nodes know without asking any service; it may take others."""
    nodes: tuple[str, ...] = ()


class OrderChoices(msgspec.Struct, frozen=True, kw_only=True):
    agents: list[AgentChoice]
    places: list[str]
    """Directories and repositories of earlier orders."""
    projects: list[str]
    labels: list[str]
    """Labels of the nodes that are up."""


@call("GET", "/choices", returns=OrderChoices)
async def list_choices(asking: Asking) -> OrderChoices:
    """What can be chosen for a new order: agents and models of the nodes that are up, and what orders had before."""
    rows = [row for row in await client.nodes(asking.bus) if row.alive]
    index = asking.site.fleet.require_index()
    offered: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in rows:
        for agent in row.agents if row.agents is not None else row.offers:
            offered.setdefault(agent, {})[row.name] = row.offers.get(agent, ())
    return OrderChoices(
        agents=[
            AgentChoice(name=name, models=tuple(dict.fromkeys(sum(on.values(), ()))), nodes=tuple(on))
            for name, on in offered.items()
        ],
        places=await asyncio.to_thread(index.values, "place", SHOWN),
        projects=await asyncio.to_thread(index.values, "project", SHOWN),
        labels=sorted({label for row in rows for label in row.labels}),
    )


class RepositoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    root: Annotated[str, Meta(min_length=1, max_length=4096)]


class RepositoryChoices(msgspec.Struct, frozen=True, kw_only=True):
    top: str = ""
    """The checkout; empty where the machine of this page has none at that path: another node may."""
    head: str = ""
    """The branch that is checked out."""
    branches: tuple[str, ...] = ()
    project: dict[str, Any] = {}
    """What an order about it gets where it says nothing, from the repository's own file."""
    templates: dict[str, dict[str, Any]] = {}
    ignored: tuple[str, ...] = ()
    """What that file asks for and is not given, and why."""


@call("GET", "/repository", right="all", query=RepositoryQuery, returns=RepositoryChoices)
async def show_repository(asking: Asking) -> RepositoryChoices:
    """The branches of a repository on this machine, and what its own file says of orders about it."""
    return await asyncio.to_thread(repository_at, asking.query.root)


def repository_at(path: str) -> RepositoryChoices:
    root = os.path.abspath(os.path.expanduser(path))
    try:
        user = checkouts.repository(root) if os.path.isdir(root) else None
    except TreadleError:
        user = None
    if user is None:
        return RepositoryChoices()
    names = [ref.removeprefix("refs/heads/") for ref in user.refs() if ref.startswith("refs/heads/")]
    head = user.head().removeprefix("refs/heads/")
    names.sort(key=lambda name: (name != head, name))
    ignored: list[str] = []
    project, templates = ({}, {}) if user.is_bare else described(user.top, ignored.append)
    return RepositoryChoices(
        top=user.top,
        head=head if head in names else "",
        branches=tuple(names[:SHOWN]),
        project=project,
        templates=templates,
        ignored=tuple(ignored),
    )
