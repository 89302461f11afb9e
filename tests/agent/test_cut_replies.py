"""A reply that breaks off at any byte ends well: it is started over or continued, and half a call is never run.

A few bytes here; every byte of every reply in `tests/soak/test_cut_replies.py`.
"""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.cutting import FIRST, FORMS, FRAMINGS, Breaking, breaking, fault, turn_fault, whole

TURNS = 12


@settings(max_examples=40)
@given(
    kind=st.sampled_from([*FORMS]),
    first=st.sampled_from([*FIRST]),
    framing=st.sampled_from(FRAMINGS),
    reset=st.booleans(),
    place=st.floats(0, 1),
)
def test_a_reply_cut_at_any_byte_is_whole_in_the_end_or_can_be_continued(
    kind: str, first: str, framing: str, reset: bool, place: float
) -> None:
    async def check() -> str:
        async with breaking(Breaking(kind, FIRST[first], framing, reset=reset)) as service:
            provider = service.provider()
            try:
                return await fault(service, provider, await whole(provider), round(place * len(service.first)))
            finally:
                await provider.aclose()

    assert asyncio.run(check()) == ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMS)
async def test_a_turn_whose_reply_is_cut_is_completed_and_runs_the_whole_call_once(kind: str, tmp_path: Path) -> None:
    async with breaking(Breaking(kind, FIRST["thinking, words and a call"])) as service:
        session = await service.session(tmp_path)
        cuts = range(0, len(service.first), len(service.first) // TURNS)
        wrong = [await turn_fault(service, session, tmp_path, cut) for cut in cuts]
        await session.close()
    assert not any(wrong), wrong
