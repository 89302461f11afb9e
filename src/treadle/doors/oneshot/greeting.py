"""What a host says first: its `initialize` decides how the session of any agent is opened."""

from typing import Any

import msgspec

from treadle.doors.oneshot.schema import SchemaCheck
from treadle.errors import RemoteProtocolError, TreadleError, Unsupported
from treadle.io.link import Link
from treadle.session import Instructions, SessionSpec, Subagent
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.subagents import subagent

Heard = wire.Record | RemoteProtocolError


class HostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an `initialize` that a session must know when it is opened."""

    instructions: Instructions | None = None
    subagents: tuple[Subagent, ...] = ()
    check: Any = None
    """A SchemaCheck for final answers."""

    def of(self, spec: SessionSpec) -> SessionSpec:
        instructions = self.instructions or spec.instructions
        return msgspec.structs.replace(spec, instructions=instructions, subagents=(*spec.subagents, *self.subagents))


def host_options(request: dict[str, Any], before: Instructions) -> HostOptions:
    """Raises what the host must be told: an unreadable option is never ignored."""
    instructions = _instructions(request, before)
    check = None
    if request.get("jsonSchema"):
        check = SchemaCheck(request["jsonSchema"])
        instructions = check.added(instructions or before)
    return HostOptions(instructions=instructions, subagents=_subagents(request.get("agents")), check=check)


async def first_records(link: Link[Heard, Any]) -> list[Heard]:
    """The first records, perhaps with more after them; empty when the host says nothing at all."""
    while (heard := await link.receive()) is not None:
        if heard:
            return list(heard)
    return []


def greeted(records: list[Heard], spec: SessionSpec) -> SessionSpec:
    """The spec with what an `initialize` among these records asks for. What is impossible is refused later."""
    first = records[0] if records else None
    if not isinstance(first, dict) or not isinstance(request := first.get("request"), dict):
        return spec
    if first.get("type") != "control_request" or request.get("subtype") != "initialize":
        return spec
    try:
        return host_options(request, spec.instructions).of(spec)
    except TreadleError:
        return spec


def _instructions(request: dict[str, Any], before: Instructions) -> Instructions | None:
    system, append = request.get("systemPrompt"), request.get("appendSystemPrompt")
    if isinstance(system, list):
        system = "\n\n".join(map(str, system))
    skills = request.get("skills")
    if not system and not append and not isinstance(skills, list):
        return None
    return msgspec.structs.replace(
        before,
        system=system or before.system,
        append=append or before.append,
        skills=tuple(map(str, skills)) if isinstance(skills, list) else before.skills,
    )


def _subagents(agents: Any) -> tuple[Subagent, ...]:
    if not agents:
        return ()
    if not isinstance(agents, dict):
        raise Unsupported(f"agents must be an object, not {type(agents).__name__}")
    return tuple(subagent(name, entry) for name, entry in agents.items())
