"""A call that does not fit into the budget is not made; one that is made is as long as what is left allows."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.gateway.wired import PATHS, ask, asking, before
from treadle.agent.providers.script import Script, ScriptedReply, UsageLine
from treadle.events import Usage
from treadle.session import Limits
from treadle.testing.server import ModelServer

LIMITS = {
    "anthropic": {"max_tokens": 50_000},
    "chat": {"max_completion_tokens": 50_000},
    "responses": {"max_output_tokens": 50_000},
    "gemini": {"generationConfig": {"maxOutputTokens": 50_000}},
}


def script(output: int = 1000) -> Script:
    used = UsageLine(input=1000, output=output)
    return Script(reply=(ScriptedReply(text="hello", usage=used, times="always"),))


def limit(family: str, body: dict[str, object]) -> object:
    (name,) = LIMITS[family]
    return msgspec.json.decode(msgspec.json.encode(body))[name]


@pytest.mark.parametrize("family", LIMITS)
async def test_the_reply_is_limited_to_what_is_left_and_then_calls_are_refused(family: str, tmp_path: Path) -> None:
    """A budget of 0.0125 USD, and calls that cost 0.011: the second does not fit any more."""
    body = asking(family, stream=False, **LIMITS[family])
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_cost_usd=0.0125)) as wiring:
        first = await ask(wiring.url, PATHS[family], body)
        second = await ask(wiring.url, PATHS[family], body)
        assert (first.status, second.status) == (200, 400) and len(server.asked) == 1
        lowered = limit(family, server.asked[0].body)
        lowered = lowered["maxOutputTokens"] if isinstance(lowered, dict) else lowered
        assert isinstance(lowered, int) and 1200 < lowered < 1250
        assert [code for code, _ in wiring.reports.notes] == ["budget"] and "limited to" in wiring.reports.notes[0][1]
    error = msgspec.json.decode(second.body)["error"]
    assert error["message"].startswith("treadle: the next call does not fit: 0.0110 USD of 0.0125 are spent")
    assert [one.code for one in wiring.reports.refused] == ["budget_exceeded"]


async def test_a_long_input_is_refused_before_it_is_paid_for(tmp_path: Path) -> None:
    body = asking("anthropic", stream=True, said="word " * 20_000, max_tokens=1000)
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_cost_usd=0.02)) as wiring:
        refused = await ask(wiring.url, PATHS["anthropic"], body)
        assert refused.status == 400 and b"its input alone costs about 0.025" in refused.body and server.asked == []


async def test_a_picture_counts_as_a_picture_and_not_as_its_letters(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
    body = asking("anthropic", stream=False, max_tokens=100, more=[picture])
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_cost_usd=0.02)) as wiring:
        assert (await ask(wiring.url, PATHS["anthropic"], body)).status == 200


async def test_calls_at_the_same_time_never_spend_what_another_has_reserved(tmp_path: Path) -> None:
    """Each may cost 0.011, and there is money for two: the others wait for them, and are refused."""
    body = asking("anthropic", stream=False, max_tokens=1000)
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_cost_usd=0.0225)) as wiring:
        answers = await asyncio.gather(*(ask(wiring.url, PATHS["anthropic"], body) for _ in range(6)))
        spent = wiring.gateway.spending.spent.cost_usd
        assert sorted(one.status for one in answers) == [200, 200, 400, 400, 400, 400] and len(server.asked) == 2
        assert spent is not None and spent <= 0.0225


async def test_thought_that_cannot_be_shortened_is_refused(tmp_path: Path) -> None:
    thinking = {"type": "enabled", "budget_tokens": 4000}
    body = asking("anthropic", stream=False, max_tokens=8000, thinking=thinking)
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_cost_usd=0.02)) as wiring:
        assert (await ask(wiring.url, PATHS["anthropic"], body)).status == 400 and server.asked == []


async def test_an_unknown_price_is_stated_and_the_tokens_still_count(tmp_path: Path) -> None:
    limits = Limits(max_cost_usd=0.001, max_tokens=2200)
    body = asking("chat", stream=False)
    async with ModelServer(script()) as server, before(server, tmp_path, limits, priced=False) as wiring:
        statuses = [(await ask(wiring.url, PATHS["chat"], body)).status for _ in range(2)]
        assert statuses == [200, 400] and len(server.asked) == 1
        assert ("unmetered", "the price of m is not known, so its cost is not limited") in wiring.reports.notes


async def test_a_call_without_a_price_leaves_the_limit_on_money_as_it_is(tmp_path: Path) -> None:
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_cost_usd=0.012)) as wiring:
        wiring.gateway.spending.add(Usage(model="m", input_tokens=1000, output_tokens=1000))
        wiring.gateway.spending.add(Usage(model="unknown", cost_usd=float("nan")))
        assert (await ask(wiring.url, PATHS["chat"], asking("chat", stream=False))).status == 400 and server.asked == []


async def test_a_call_that_names_no_limit_gets_what_is_left(tmp_path: Path) -> None:
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_cost_usd=0.1)) as wiring:
        assert (await ask(wiring.url, PATHS["chat"], asking("chat", stream=False))).status == 200
        assert 9900 < server.asked[0].body["max_completion_tokens"] < 10_000


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/files", b"{}", 400),
        ("/v1/models/x", b"{}", 400),
        ("/v1/messages/", asking("anthropic", stream=False), 400),
        ("/v1/%6dessages", asking("anthropic", stream=False), 400),
        ("/v1/messages", b"packed", 400),
        ("/v1/models", b"", 200),
    ],
)
async def test_when_all_is_used_up_only_what_is_free_passes(
    path: str, body: bytes, status: int, tmp_path: Path
) -> None:
    async with ModelServer(script()) as server, before(server, tmp_path, Limits(max_tokens=10)) as wiring:
        wiring.gateway.spending.add(Usage(model="m", input_tokens=10))
        assert (await ask(wiring.url, path, body)).status == status
        assert len(server.requests) == (status == 200)
