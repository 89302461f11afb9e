"""What a host's `initialize` asks for is known before the session is opened, whichever agent it is of."""

from typing import Any

from tests.streams import pair
from treadle.doors.oneshot.hosting import first_records, greeted, host_options
from treadle.io.link import Link
from treadle.session import Instructions, SessionSpec
from treadle.wire.oneshot.connection import Connection

SPEC = SessionSpec(cwd="/", instructions=Instructions(append="be brief"))
AGENTS = {"tester": {"description": "tests", "prompt": "test it"}}


def initialize(**request: Any) -> dict[str, Any]:
    return {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize", **request}}


def test_a_schema_is_told_to_the_agent_and_kept_for_its_answers() -> None:
    asked = host_options({"jsonSchema": {"type": "object"}}, SPEC.instructions)
    assert asked.check is not None and asked.instructions is not None
    assert str(asked.instructions.append).startswith("be brief\n\n")


async def test_the_first_line_may_come_in_pieces_or_never() -> None:
    host, ours = pair()
    link: Link[Any, Any] = Link(ours, Connection("run"))
    await host.write(b'{"type":"user","mess')
    await host.write(b'age":{"content":"hi"}}\n')
    assert [record["type"] for record in await first_records(link)] == ["user"]
    host.close_write()
    assert await first_records(link) == []


def test_what_a_host_does_not_say_stays_as_it_was() -> None:
    before = Instructions(system="old", append="be brief", skills=("a",))
    assert host_options({}, before).instructions is None and host_options({}, before).check is None
    for request, wanted in (
        ({"systemPrompt": "new"}, Instructions(system="new", append="be brief", skills=("a",))),
        ({"appendSystemPrompt": "be kind"}, Instructions(system="old", append="be kind", skills=("a",))),
        ({"skills": ["b", 3]}, Instructions(system="old", append="be brief", skills=("b", "3"))),
        ({"skills": []}, Instructions(system="old", append="be brief", skills=())),
    ):
        assert host_options(request, before).instructions == wanted
    with_schema = host_options({"jsonSchema": {"type": "object"}, "systemPrompt": "new"}, before).instructions
    assert with_schema is not None and with_schema.system == "new"
    kept = host_options({"agents": AGENTS}, before).of(SPEC)
    assert kept.instructions == SPEC.instructions and len(kept.subagents) == 1
    assert len(host_options({"agents": AGENTS}, before).of(kept).subagents) == 2
    spec = greeted([{"type": "user", "request": {"subtype": "initialize", "systemPrompt": "x"}}], SPEC)
    assert spec == SPEC and greeted(["x"], SPEC) == SPEC  # type: ignore[list-item]
