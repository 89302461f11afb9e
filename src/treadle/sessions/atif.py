"""ATIF, the Agent Trajectory Interchange Format that Harbor, NeMo and Phoenix read: its document, and its steps as our
events. Pure.

Written is version 1.5, the oldest that has all we write; read is every 1.x. Fields that we do not know are passed over.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from treadle import events
from treadle.errors import ConfigError
from treadle.policy.guess import access_of

VERSION = "ATIF-v1.5"


class Called(msgspec.Struct, kw_only=True, omit_defaults=True):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class CallResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    source_call_id: str | None = None
    content: str | list[dict[str, Any]] | None = None


class Observation(msgspec.Struct, kw_only=True):
    results: list[CallResult] = []


class TrajectoryStep(msgspec.Struct, kw_only=True, omit_defaults=True):
    step_id: int
    source: Literal["system", "user", "agent"]
    message: str | list[dict[str, Any]]
    model_name: str | None = None
    tool_calls: list[Called] | None = None
    observation: Observation | None = None
    extra: dict[str, Any] | None = None


class Who(msgspec.Struct, kw_only=True, omit_defaults=True):
    name: str
    version: str
    model_name: str | None = None


class Trajectory(msgspec.Struct, kw_only=True, omit_defaults=True):
    schema_version: str
    session_id: str | None = None
    agent: Who
    steps: list[TrajectoryStep]
    final_metrics: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None


def read_trajectory(data: bytes, name: str) -> Trajectory:
    try:
        found = msgspec.json.decode(data, type=Trajectory)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{name} is not an ATIF trajectory: {error}") from None
    if not found.schema_version.startswith("ATIF-v1."):
        raise ConfigError(f"{name} is in {found.schema_version}, which is not supported", hint="ATIF-v1.x is read")
    return found


def events_of(trajectory: Trajectory) -> Iterator[events.Event]:
    """What happened, as an agent of ours would have reported it."""
    for step in trajectory.steps:
        text = _text(step.message)
        if step.source == "user":
            yield events.TurnStarted(prompt=text)
        elif step.source == "agent":
            yield from [events.Message(text=text, model=step.model_name or "")] if text else []
            yield from map(_started, step.tool_calls or ())
            names = {call.tool_call_id: call.function_name for call in step.tool_calls or ()}
            failed = (step.extra or {}).get("failed_calls", ())
            for result in step.observation.results if step.observation is not None else ():
                call = result.source_call_id or ""
                name, ok = names.get(call, ""), call not in failed
                yield events.ToolEnded(call=call, name=name, result=_text(result.content), ok=ok)


def _started(call: Called) -> events.ToolStarted:
    access = access_of(call.function_name, call.arguments)
    return events.ToolStarted(
        call=call.tool_call_id,
        name=call.function_name,
        args=call.arguments,
        kind=access.kind,
        paths=access.paths,
        command=access.command,
    )


def _text(content: str | list[dict[str, Any]] | None) -> str:
    """The words; of a picture or a sound, that there was one."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", f"[{part.get('type', 'something')}]")) for part in content)
    return content or ""
