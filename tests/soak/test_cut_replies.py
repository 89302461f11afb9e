"""Replies of all three services, cut at every byte: 100 % end well."""

from pathlib import Path

import pytest

from tests.agent.cutting import FIRST, FORMS, FRAMINGS, Breaking, breaking, fault, turn_fault, whole


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("kind", FORMS)
async def test_a_reply_cut_at_every_byte_is_whole_in_the_end_or_can_be_continued(
    kind: str, framing: str, first: str
) -> None:
    async with breaking(Breaking(kind, FIRST[first], framing)) as service:
        provider = service.provider()
        expected = await whole(provider)
        wrong = [await fault(service, provider, expected, cut) for cut in range(len(service.first) + 1)]
        await provider.aclose()
    print(f"{kind}, {framing}, {first}: cut at {len(wrong)} places, {len(wrong) - sum(map(bool, wrong))} end well")
    assert not any(wrong), [*filter(None, wrong)][:5]


@pytest.mark.parametrize("first", [name for name in FIRST if "call" in name])
@pytest.mark.parametrize("kind", FORMS)
async def test_every_turn_whose_reply_is_cut_is_completed_and_runs_the_whole_call_once(
    kind: str, first: str, tmp_path: Path
) -> None:
    async with breaking(Breaking(kind, FIRST[first])) as service:
        session = await service.session(tmp_path)
        wrong = [await turn_fault(service, session, tmp_path, cut) for cut in range(len(service.first) + 1)]
        await session.close()
    print(f"{kind}, {first}: {len(wrong)} turns, {len(wrong) - sum(map(bool, wrong))} end well")
    assert not any(wrong), [*filter(None, wrong)][:5]
