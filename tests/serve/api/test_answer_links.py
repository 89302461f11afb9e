"""Links that answer a question: whole, signed and fresh, and what an agent wrote is shown as it is."""

import asyncio
import time

import pytest

from tests.fleet.conftest import give, spec
from tests.serve.conftest import WAIT, Web
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.serve.api import devices
from treadle.wire.fleet.records import AskRecord


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("o/1/allow/99999999999/wrong", 403),
        ("o/1/maybe/99999999999/wrong", 404),
        ("o/one/allow/99999999999/wrong", 404),
        ("o/1/allow/never/wrong", 404),
        ("o/1/allow/9999999999999/wrong", 404),
        ("o/1/allow/999999999999/wrong", 403),
        ("o/1/deny/99999999999/wrong", 403),
    ],
)
async def test_a_link_that_is_not_whole_or_was_not_made_here_answers_nothing(
    alone: Web, path: str, status: int
) -> None:
    for method in ("GET", "POST"):
        assert (await alone.http.request(method, f"{alone.address}/a/{path}")).status_code == status


def asked(deadline: float) -> AskRecord:
    return AskRecord(order="o", number=1, asked_at=0.0, deadline=deadline, default="deny")


async def test_a_link_is_signed_for_one_question_one_answer_and_until_its_end(alone: Web) -> None:
    tokens = alone.server.site.tokens
    made = devices.make(tokens, alone.address, asked(time.time() + 60), "allow")
    assert (await alone.http.get(made)).status_code == 409, "it is whole, and there is no fleet to ask"
    for other in (made.replace("/allow/", "/deny/"), made.replace("/o/1/", "/o/2/"), made.replace("/o/1/", "/p/1/")):
        assert (await alone.http.get(other)).status_code == 403
    assert (await alone.http.get(devices.make(tokens, alone.address, asked(1.0), "allow"))).status_code == 403


def test_what_cannot_be_seen_is_shown_by_its_number() -> None:
    assert devices.shown("rm\u200b -rf\u202e x\x1b[0m") == "rm⟨U+200B⟩ -rf⟨U+202E⟩ x⟨U+001B⟩[0m"
    assert devices.shown("a\n\tb é") == "a\n\tb é"


async def test_a_question_is_shown_then_answered_once_and_says_who_was_first(web: Web, bus: Bus) -> None:
    (name,) = await give(bus, spec())
    site = web.server.site
    index, tokens = site.fleet.require_index(), site.tokens
    deadline = time.time() + 605

    def ask(number: int) -> AskRecord:
        said = {"agent": "codex", "title": "a <b>", "text": "rm -r\u200b build"}
        return AskRecord(order=name, number=number, asked_at=0.0, deadline=deadline, default="deny", **said)  # type: ignore[arg-type]

    for number in (1, 2):
        await bus.put(f"ask.{name}.{number}", encode(ask(number)))
    links = {number: devices.make(tokens, web.address, ask(number), "allow") for number in (1, 2, 3)}
    async with asyncio.timeout(WAIT):
        while index.ask(f"{name}.2") is None:
            await asyncio.sleep(0.01)
        shown = await web.http.get(links[1])
        assert shown.status_code == 200 and "codex asks, for “a &lt;b&gt;”:" in shown.text
        assert "rm -r⟨U+200B⟩ build" in shown.text and "10 minutes left, then: deny" in shown.text
        assert '<form method="post"><button class="allow">Allow</button></form>' in shown.text
        lost = await web.http.get(links[3])
        assert lost.status_code == 404 and "no such question any more" in lost.text
        done = await web.http.post(links[1])
        assert (done.status_code, "Answered: allow." in done.text, "<form" in done.text) == (200, True, False)
        while (found := index.ask(f"{name}.1")) is None or found[1] is None:
            await asyncio.sleep(0.01)
    assert found[1].by == f"{site.user} (answer link)" and found[1].decision == "allow"
    again = await web.http.post(links[1])
    assert again.status_code == 200 and f"{site.user} (answer link) has answered already: allow." in again.text
    assert tokens.use(links[2].rpartition("/")[2], deadline)
    used = await web.http.post(links[2])
    assert used.status_code == 409 and "used before" in used.text and "<form" not in used.text
