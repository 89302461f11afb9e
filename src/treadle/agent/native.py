"""The native agent: opens sessions of its own kind, new ones, saved ones, and saved ones up to a line that a host
names.
"""

import os
from collections.abc import Mapping

import msgspec

from treadle import __version__
from treadle.agent.configuration import Configuration
from treadle.agent.messages import AssistantMessage, ChatMessage
from treadle.agent.session import CAPABILITIES, NAME, NativeSession
from treadle.agent.tools import BUILTIN
from treadle.agent.transcript import (
    Cleared,
    Compacted,
    MessageRecord,
    Named,
    Pruned,
    Record,
    Rewound,
    Switched,
    Transcript,
    TurnBegan,
    directory_of,
    effective,
    is_id,
)
from treadle.errors import ConfigError, NotFound
from treadle.session import AgentInfo, SessionSpec, StoredSession
from treadle.settings.claude import entrypoint_of

# Goes on with a session from the middle: what was said up to a line that a host names, and nothing after it.
#
# Files stay as they are, and nothing is erased: the history says that a turn was taken back, then what of it is left.

LEFT = (MessageRecord, TurnBegan, Pruned, Compacted, Cleared, Named, Switched)
"""What of a turn that ends early is said again. What was spent and backed up counts as it was."""


def cut_after(transcript: Transcript, uuid: str) -> list[Record]:
    """The records that make this line the last one of the conversation. Raises NotFound when there is no such line."""
    from treadle.agent.claude_lines import named_messages

    records = effective(transcript.records)
    for number, spoken, part, last in named_messages(transcript, uuid):
        begins = [at for at, one in enumerate(records[:number]) if isinstance(one, TurnBegan)]
        turn = records[begins[-1]] if begins else None
        if not isinstance(turn, TurnBegan):
            break
        left = [one for one in records[begins[-1] : number] if isinstance(one, LEFT)]
        rest = spoken if last else msgspec.structs.replace(spoken, message=_first_blocks(spoken.message, part))
        first = transcript.listing.prompt if len(begins) > 1 else ""
        listing = msgspec.structs.replace(transcript.listing, turns=len(begins) - 1, prompt=first)
        return [Rewound(turn=turn.turn, listing=listing), *left, rest]
    raise NotFound(
        f"no message {uuid} in session {transcript.header.id}",
        hint="the uuid of an assistant line of stream-json, or of a message that the SDK lists",
    )


def _first_blocks(message: ChatMessage, part: int) -> ChatMessage:
    """The message up to a block: its thinking, its text, then its calls."""
    if not isinstance(message, AssistantMessage):
        return message
    thinking = [one for one in message.thinking if one.text]
    if part < len(thinking):
        return msgspec.structs.replace(message, thinking=tuple(thinking[: part + 1]), text="", calls=())
    calls = part - len(thinking) - bool(message.text) + 1
    return msgspec.structs.replace(message, calls=message.calls[:calls])


class NativeAgent:
    name = NAME

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = os.environ if env is None else env

    async def probe(self) -> AgentInfo:
        return AgentInfo(name=self.name, version=__version__, tools=BUILTIN, capabilities=dict(CAPABILITIES))

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        from treadle.agent.stored_sessions import list_sessions

        return [
            StoredSession(id=entry.id, cwd=entry.cwd, title=entry.name or entry.prompt, updated=entry.updated)
            for entry in list_sessions(cwd)
        ]

    async def open(self, spec: SessionSpec) -> NativeSession:
        if not os.path.isdir(spec.cwd):
            raise ConfigError(f"the working directory {spec.cwd} does not exist", hint="make it, or name another")
        spec = msgspec.structs.replace(spec, cwd=os.path.abspath(spec.cwd))
        spec = _of_copy(spec)
        old = _session_to_resume(spec)
        if old is not None and old.header.denied:
            deny = tuple(dict.fromkeys((*old.header.denied, *spec.rules.deny)))
            spec = msgspec.structs.replace(spec, rules=msgspec.structs.replace(spec.rules, deny=deny))
        configuration = _as_agent(await Configuration.load(spec, self._env))
        spec = configuration.spec
        model = spec.model or (old.model if old else None) or configuration.settings.model
        provider = configuration.provider(model)
        again = cut_after(old, spec.start.at) if old is not None and spec.start.at else []
        transcript = _transcript(spec, old, model or provider.model)
        try:
            if again:
                transcript.append(*again, sync=True)
            session = NativeSession(configuration, transcript, provider)
            session.model = model
            await session.begin()
            return session
        except BaseException:
            transcript.close()
            raise


def _as_agent(configuration: Configuration) -> Configuration:
    """With the definition of the agent that the conversation itself shall be, if one is named."""
    spec = configuration.spec
    asked = spec.extra.get("as_agent")
    name = asked or spec.extra.get("main_agent") or configuration.settings.main_agent
    if not name:
        return configuration
    from treadle.agent.tasks import as_main, kinds
    from treadle.settings.project import agents

    broken: list[str] = []
    known = kinds((*agents(spec.cwd, spec.instructions, broken), *spec.subagents))
    if (kind := known.get(name.lower())) is not None:
        return msgspec.structs.replace(configuration, spec=as_main(spec, kind))
    names = ", ".join(kind.name for kind in known.values())
    if asked:
        hint = "; ".join((*broken, f"defined here are {names}", *spec.extra.get("agent_hints", ())))
        raise NotFound(f"there is no agent {name!r}", hint=hint)
    missing = f"there is no agent {name!r}, which the settings name: this is the usual one; defined here are {names}"
    return msgspec.structs.replace(configuration, notes=(*configuration.notes, missing))


def _session_to_resume(spec: SessionSpec) -> Transcript | None:
    """The session to resume, if any."""
    if spec.start.resume is None:
        return None
    from treadle.agent.claude_lines import deleted
    from treadle.agent.stored_sessions import find_session

    found = Transcript.read(find_session(spec.start.resume, spec.cwd))
    if not spec.start.fork and deleted(found.header, found.listing.turns):
        raise NotFound(f"no session matches {spec.start.resume!r}: it was deleted", hint="begin a new one")
    return found


def _of_copy(spec: SessionSpec) -> SessionSpec:
    """A session that only exists as an SDK's copy of one of ours: a fork of that one, up to the copy's last line."""
    start = spec.start
    if not start.resume or not is_id(start.resume) or os.path.isdir(directory_of(start.resume)):
        return spec
    from treadle.agent.claude_lines import copied_from

    if (origin := copied_from(start.resume, spec.cwd)) is None:
        return spec
    name = start.id if start.fork else start.resume
    start = msgspec.structs.replace(start, resume=origin[0], at=start.at or origin[1], fork=True, id=name)
    return msgspec.structs.replace(spec, start=start)


def _transcript(spec: SessionSpec, old: Transcript | None, model: str) -> Transcript:
    if old is not None and not spec.start.fork:
        return Transcript.open(old.header.id)
    return Transcript.create(
        cwd=spec.cwd,
        model=model,
        session_id=spec.start.id,
        name=spec.start.name,
        persist=spec.start.persist,
        forked=old,
        denied=spec.rules.deny,
        sdk=bool(entrypoint_of(os.environ)),
    )
