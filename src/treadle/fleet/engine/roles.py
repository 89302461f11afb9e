"""Who may do what on the engine: the roles of a fleet as permissions of the server.

    admin   everything; kept on the machine that started the fleet
    submit  give orders, requests (cancel, pause...) and answers, merge, and look at everything
    watch   look at everything
    node:NAME    be a node of this name: take its work, tell what became of it, be the scheduler
    worker:NAME  the same without being the scheduler
    enrol:ID     ask once to be made a worker

A node can be elected scheduler, so it can write the state of every order. A worker can not: it may report only as
itself, on what was placed on it. Who looks makes readers with names of their own; the consumers that the scheduler
takes its work from are denied to all others by name, and only who is asked something may send replies, because a reply
to a message of a consumer is what takes it off.
"""

from collections.abc import Mapping

from treadle.fleet.engine.bus import EVENTS, STATE
from treadle.fleet.engine.layout import OBJECTS, consumers

_LOOK = [
    f"$JS.API.STREAM.INFO.{STATE}",
    f"$JS.API.STREAM.INFO.{EVENTS}",
    f"$JS.API.STREAM.INFO.{OBJECTS}",
    f"$JS.API.STREAM.MSG.GET.{STATE}",  # the latest of a key, from the leader of a cluster
    f"$JS.API.DIRECT.GET.{STATE}",
    f"$JS.API.DIRECT.GET.{STATE}.>",
    f"$JS.API.DIRECT.GET.{EVENTS}",
    f"$JS.API.DIRECT.GET.{EVENTS}.>",
    f"$JS.API.DIRECT.GET.{OBJECTS}.>",
    *(
        f"$JS.API.CONSUMER.{verb}.{stream}.>"
        for stream in (STATE, EVENTS, OBJECTS)
        for verb in ("CREATE", "INFO", "DELETE", "MSG.NEXT")
    ),
    "$JS.API.INFO",
    "fleet.ask.>",
]
_SCHEDULERS = [
    subject
    for stream, config in consumers(lease=0.0)
    for name in [f"{stream}.{config['durable_name']}"]
    for subject in (f"$JS.API.CONSUMER.*.{name}", f"$JS.API.CONSUMER.*.{name}.>", f"$JS.API.CONSUMER.*.*.{name}")
]
"""Every request about a consumer of the scheduler's: to make, change, pause, delete or pull from it."""
_SUBMIT = [
    "$KV.fleet.spec.*",
    "$KV.fleet.boards.*",
    "$KV.fleet.steers.*",
    "$KV.fleet.goalrequest.*",
    "$KV.fleet.landed.*.*",  # what their merges have landed
    "$KV.fleet.answer.>",
    "$KV.fleet.taken.>",
    "$KV.fleet.say.>",
    "fleet.in.wish.>",
    "fleet.term.>",
    "$O.fleet.C.*",
    "$O.fleet.M.*",
]


def permissions(role: str) -> dict[str, list[str]] | None:
    """What a role may publish and subscribe to; None means everything."""
    kind, _, name = role.partition(":")
    inbox = f"_INBOX_{role.replace(':', '_')}.>"
    if kind in ("admin", "node"):
        return None
    if kind == "watch":
        return {"publish": _LOOK, "subscribe": [inbox]}
    if kind == "submit":
        return {"publish": [*_LOOK, *_SUBMIT], "subscribe": [inbox]}
    if kind == "worker":
        mine = [
            f"$KV.fleet.node.{name}",
            "$KV.fleet.say.>",
            "$KV.fleet.taken.>",
            f"fleet.in.node.{name}.>",
            f"fleet.beat.{name}.>",
            f"fleet.ev.*.*.{name}",
            f"$O.fleet.C.{name}.*",
            f"$O.fleet.M.{name}.*",
        ]
        return {"publish": [*_LOOK, *mine], "subscribe": [inbox, f"fleet.tell.{name}.>", f"fleet.term.{name}.>"]}
    if kind == "enrol":
        return {"publish": [f"fleet.enrol.{name}"], "subscribe": [inbox]}
    raise ValueError(f"there is no role {role!r}")


def authorization(users: Mapping[str, str]) -> str:
    """The part of a server's settings that says who may connect and do what."""
    rows = []
    for role, password in users.items():
        allowed = permissions(role)
        rights = ""
        if allowed is not None:
            publish = f"{{allow: {_list(allowed['publish'])}, deny: {_list(_SCHEDULERS)}}}"
            replies = ", allow_responses: true" if role.startswith("worker:") else ""
            rights = f", permissions: {{publish: {publish}, subscribe: {_list(allowed['subscribe'])}{replies}}}"
        rows.append(f'    {{user: "{role.replace(":", "_")}", password: "{password}"{rights}}}')
    return "authorization {\n  users: [\n" + "\n".join(rows) + "\n  ]\n}"


def _list(subjects: list[str]) -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"
