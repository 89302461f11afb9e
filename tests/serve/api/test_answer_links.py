"""Links that answer a question: whole, signed and fresh, and what an agent wrote is shown as it is."""

import time

import pytest

from tests.serve.conftest import Web
from treadle.serve.api import answer_links
from treadle.wire.fleet.records import AskRecord


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("o/1/allow/99999999999/wrong", 403),
        ("o/1/maybe/99999999999/wrong", 404),
        ("o/one/allow/99999999999/wrong", 404),
        ("o/1/allow/never/wrong", 404),
        ("o/1/allow/9999999999999/wrong", 404),
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
    made = answer_links.make(tokens, alone.address, asked(time.time() + 60), "allow")
    assert (await alone.http.get(made)).status_code == 409, "it is whole, and there is no fleet to ask"
    for other in (made.replace("/allow/", "/deny/"), made.replace("/o/1/", "/o/2/"), made.replace("/o/1/", "/p/1/")):
        assert (await alone.http.get(other)).status_code == 403
    assert (await alone.http.get(answer_links.make(tokens, alone.address, asked(1.0), "allow"))).status_code == 403


def test_what_cannot_be_seen_is_shown_by_its_number() -> None:
    assert answer_links.shown("rm\u200b -rf\u202e x\x1b[0m") == "rm⟨U+200B⟩ -rf⟨U+202E⟩ x⟨U+001B⟩[0m"
    assert answer_links.shown("a\n\tb é") == "a\n\tb é"
