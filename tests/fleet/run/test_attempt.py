"""No key that an agent comes across is in anything that the fleet keeps or sends."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import bash, git, model, read, says, work
from tests.installed import treadle
from treadle.events import Message
from treadle.fleet import client
from treadle.fleet.engine import places, streams
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus
from treadle.fleet.engine.layout import OBJECTS
from treadle.fleet.engine.streams import Pull
from treadle.fleet.orders import encode
from treadle.fleet.run import resumption
from treadle.fleet.run.attempt import RunningAttempt
from treadle.io.paths import state_dir
from treadle.wire.fleet.messages import RunAsked, RunLost, SessionKeys
from treadle.wire.fleet.orders import OrderLimits, Spec
from treadle.wire.fleet.records import Attempt, Order

BODY = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDcAnAry0001abc", "Zx9" + "CaNaRyBody2" * 5 + "Qq7+/x"]
VALUES = {"NODE_SECRET": "canary-by-value-of-the-node", "CANARY_TOKEN": 'quo"CaNaRyQuoted"value'}
CANARIES = {
    "anthropic": "sk-ant-api03-CaNaRyAAAABBBBCCCCDDDD-eeee",
    "openai": "sk-proj-CaNaRyabcdefghijklmnop1234",
    "github": "ghp_CaNaRy" + "a1B2" * 8,
    "github fine": "github_pat_CaNaRy" + "a1B2_" * 6,
    "gitlab": "glpat-CaNaRy" + "a1B2c3" * 3,
    "aws id": "AKIACANARY7EXAMPLE12",
    "aws secret": "aws_secret_access_key = CaNaRy/wJalrXUtnFEMIK7MDENGbPxRfiCY",
    "google": "AIzaCaNaRy" + "x" * 29,
    "slack": "xoxb-1234567890-CaNaRyabcdef",
    "slack hook": "https://hooks.slack.com/services/T00000000/B00000000/CaNaRyXXXXXXXXXXXXXX",
    "npm": "npm_CaNaRy" + "a1B2" * 8,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJDYU5hUnkifQ.CaNaRydozjgNryP4J3jVmNHl0w5N",
    "stripe": "sk_live_CaNaRy1234567890abcdef",
    "azure": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=CaNaRy" + "Ab1+" * 20 + "==",
    "telegram": "123456789:AACaNaRyhG3kfkcaNaRyaaaaBBBBccccdd",
    "url": "postgres://user:CaNaRy-password@db.example/x",
    "json": '{"client": 1, "password": "CaNaRy hunter two"}',
    "pem": "\n".join(["-----BEGIN PRIVATE KEY-----", *BODY, "CaNaRyEnd==", "-----END PRIVATE KEY-----"]),
    **VALUES,
}
FRAMED = ("aws secret", "slack hook", "azure", "url", "json", "pem", "CANARY_TOKEN")
"""What is looked for by its secret part, because the rest stays."""
NEEDLES = {
    **{name: text for name, text in CANARIES.items() if name not in FRAMED},
    "aws secret": "CaNaRy/wJalrXUtn",
    "slack hook": "CaNaRyXXXXXXXXXXXXXX",
    "azure": "CaNaRyAb1+",
    "url": "CaNaRy-password",
    "json": "CaNaRy hunter two",
    "pem": BODY[0],
    "pem body": BODY[1],
    "pem end": "CaNaRyEnd",
    "quoted": "CaNaRyQuoted",
}


def canaries_in(data: bytes) -> set[str]:
    return {name for name, needle in NEEDLES.items() if needle.encode() in data}


async def everything_stored(bus: Bus) -> dict[str, bytes]:
    """Every message of every stream but the parts of objects, and every object, by its name."""
    found: dict[str, bytes] = {}
    for name in (STATE, EVENTS, OBJECTS):
        pull = Pull(bus, name, filters=("$O.fleet.M.>",) if name == OBJECTS else ())
        pending = 1
        while pending and (some := await pull.next(5.0)):
            found |= {f"{each.subject} {each.metadata.sequence.stream}": each.data for each in some}
            pending = some[-1].metadata.num_pending
        await pull.close()
    for subject, data in list(found.items()):
        if subject.startswith("$O.fleet.M."):
            name = msgspec.json.decode(data)["name"]
            found[name] = await streams.get(bus, name)
    return found


def files_kept(but: tuple[str, ...]) -> dict[str, bytes]:
    found = {}
    for here, _, names in os.walk(state_dir()):
        for name in names:
            path = os.path.join(here, name)
            short = os.path.relpath(path, state_dir())
            if os.path.isfile(path) and not short.startswith(but):
                found[short] = Path(path).read_bytes()
    return found


@pytest.mark.slow
async def test_no_canary_of_any_shape_is_in_anything_that_is_kept(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)
    (repository / "keys.txt").write_text("\n".join(CANARIES.values()) + "\n")
    (repository / "body.txt").write_text("\n".join(BODY) + "\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "keys")
    aloud = "\n".join(CANARIES.values())
    slow = "cat body.txt; while read -r line; do printf '%s' \"$line\"; sleep 0.01; echo; done < keys.txt"
    script = model(
        tmp_path,
        says(f"I look.\n{aloud}", read("keys.txt"), bash(slow)),
        says("", bash("tail -n 3 keys.txt >&2; echo " + CANARIES["telegram"])),
        says(f"Done. {aloud}"),
    )
    await start_node()
    order = work(repository, script, mode="yolo", verify="cat keys.txt; false")
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "failed" and "not verified" in ended.why
    seen = [each.event async for each in client.events(bus, order.id)]
    assert {"tool_output", "tool_ended", "message"} <= {each["type"] for each in seen if each}
    assert "[redacted]" in str(seen)

    stored = await everything_stored(bus)
    assert streams.owned("n1", f"{resumption.KIND}.{order.id}.1") in stored
    key = places.of_order(places.session_key(), order.id)
    session = await resumption.fetch(bus, "n1", order.id, 1, key)
    assert session is not None
    (history,) = session.files.values()
    assert len(canaries_in(history) - set(VALUES)) >= 17, "the agent's own history, which resume needs as it was"
    # Not looked at: the agent's own history on its own machine, and the work itself.
    kept = files_kept(("sessions/", f"fleet/runs/{order.id}.1/work/", f"fleet/runs/{order.id}.1/store/"))
    assert any(name.startswith("fleet/engine/") for name in kept)
    said = treadle("fleet", "logs", order.id, "--json", timeout=60).stdout + treadle("fleet", "logs", order.id).stdout
    assert "[redacted]" in said
    shown = str(await client.show(bus, order.id))
    told: dict[str, Any] = {**stored, **kept, "show": shown.encode(), "fleet logs": said.encode()}
    leaks = {name: found for name, data in told.items() if (found := canaries_in(data))}
    assert leaks == {}
    assert any(name.startswith("$KV.fleet.receipt") for name in told)
    assert any(name.endswith("events.jsonl") for name in told)


async def attempted(bus: Bus, tmp_path: Path, *outcomes: str) -> RunningAttempt:
    attempts = tuple(Attempt(number=n, node="n", placed=1.0, outcome=each) for n, each in enumerate(outcomes, 1))  # type: ignore[arg-type]
    placed: dict[str, Any] = {"attempt": len(outcomes) or 1, "node": "n1", "attempts": attempts}
    order = Order(id="o", state="running", changed=1.0, limits=OrderLimits(tokens=5), **placed)
    return RunningAttempt(str(tmp_path), Spec(id="o", task="t", root="/r"), order, 0.05, bus)


async def test_an_attempt_knows_those_before_it_that_did_something_and_reports_each_thing_once(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hush-hush-hush")
    one = await attempted(bus, tmp_path, "lost", "not_here", "failed", "")
    assert [each.number for each in one.earlier] == [1, 3] and one.may_go_on.is_set() and one.limits.tokens == 5
    assert one.object_name("patch") == "n1/patch.o.4" and one.root == "/r"
    for _ in range(2):
        await one.report(RunLost, why="the key is hush-hush-hush")
    await one.report(RunAsked, number="r1")
    await one.report(RunAsked, number="r2")
    pull = Pull(bus, INBOX, durable="inbox")
    sent: list[tuple[str, Any]] = []
    while some := await pull.next(0.2):
        sent += [(each.subject, msgspec.json.decode(each.data)) for each in some]
    await pull.close()
    assert [subject for subject, _ in sent] == ["fleet.in.node.n1.lost", *["fleet.in.node.n1.asked"] * 2]
    assert sent[0][1] == {"order": "o", "attempt": 4, "why": "the key is [redacted]"}
    one.superseded.set()
    await one.report(RunLost, why="no one hears it")
    assert (await bus.api("STREAM.INFO.FLEET_IN"))["state"]["messages"] == 3
    plain = encode({"b": 1, "a": "x"})
    assert one.redacted(plain) is plain and one.redacted(encode({"a": "hush-hush-hush"})) == b'{"a":"[redacted]"}'
    one.tell(Message(text="I know hush-hush-hush", seq=1))
    await one.end_events(60)
    (seen,) = [each.event async for each in client.events(bus, "o")]
    assert seen["text"] == "I know [redacted]"


async def test_the_key_of_a_session_is_asked_for_until_it_is_given_or_another_has_the_order(
    bus: Bus, tmp_path: Path
) -> None:
    one = await attempted(bus, tmp_path)
    assert await one.session_key("o") is None, "no scheduler is there"
    answers = [SessionKeys(), SessionKeys(keys={"o": b"k" * 32})]
    asked: list[str] = []

    async def answer(subject: str, data: bytes) -> bytes:
        asked.append(subject)
        return encode(answers[min(len(asked), 2) - 1])

    await bus.serve("fleet.beat.>", answer)
    one.lease = 5.0
    assert await one.session_key("o") == b"k" * 32 and asked == ["fleet.beat.n1.o.1.keys"] * 2
    assert await one.session_key("other") is None and len(asked) == 2
    other = await attempted(bus, tmp_path / "..")
    other.superseded.set()
    assert await other.session_key("o") is None and len(asked) == 2
    for each in (one, other):
        await each.log.finish(1)
