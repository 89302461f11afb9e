"""One claim as in its file, also as other tools write it; and who blocks whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.coordination.claim import (
    DEFAULT_TTL_MINUTES,
    MAX_TTL_MINUTES,
    MOST_SHOWN,
    Claim,
    Collision,
    Held,
    Overlap,
    inside,
    owns,
    summed,
)
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError

ANN = "haid:ann.laptop-1a2b/coder"
SINCE = "2026-01-01T00:00:00Z"


def claim(*surfaces: str, **fields: Any) -> Claim:
    return Claim({"haid": ANN, "claimed_surfaces": list(surfaces), "claimed_at": SINCE, **fields})


@pytest.mark.parametrize("fields", [{}, {"haid": ""}, {"haid": ANN}, {"haid": ANN, "claimed_surfaces": [1]}])
def test_what_lacks_an_identity_or_surfaces_is_not_a_claim(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a claim"):
        Claim(fields)


@pytest.mark.parametrize(
    ("ttl", "minutes"),
    [(5, 5), (0.5, 0.5), ("5", DEFAULT_TTL_MINUTES), (True, DEFAULT_TTL_MINUTES), (1e12, MAX_TTL_MINUTES)],
)
def test_a_claim_lasts_as_long_as_it_says_within_bounds(ttl: object, minutes: float) -> None:
    assert claim("src/**", ttl_minutes=ttl).ttl == minutes * 60


def test_it_ends_some_time_after_it_was_last_renewed() -> None:
    assert claim("a", ttl_minutes=1).expires_at == "2026-01-01T00:01:00Z"
    assert claim("a", ttl_minutes=1, heartbeat="2026-01-01T01:00:00Z").expires_at == "2026-01-01T01:01:00Z"


def test_a_clock_that_is_ahead_of_ours_makes_no_claim_last_longer() -> None:
    fields = {"haid": ANN, "claimed_surfaces": ["a"], "heartbeat": "2999-01-01T00:00:00Z", "ttl_minutes": 1}
    assert Claim(fields, now=1000.0).ends == 1060.0


def test_each_surface_remembers_its_task_and_its_mode() -> None:
    held = {"a": {"task": "t1", "mode": "shared", "fence": 1}, "b": {"task": "t2", "mode": "exclusive", "fence": 4}}
    found = Claim({"haid": ANN, **summed(held)})
    assert (found.task, found.fence, found.mode) == ("t1; t2", 4, "exclusive")
    assert found.is_shared("a") and not found.is_shared("b")
    assert summed({}) == {"claimed_surfaces": [], "task_ref": "", "fence": 0, "mode": "shared", "held": {}}


def test_a_surface_that_stands_for_no_path_covers_nothing_and_harms_nobody() -> None:
    found = claim("", "src/**")
    assert [surface.text for surface in found.surfaces] == ["src/**"]


def test_overlaps_say_who_holds_what_until_when() -> None:
    theirs = claim("src/**", task_ref="fix", ttl_minutes=1, fence=3)
    [found] = Held([theirs]).overlaps([Surface("src/a.py"), Surface("docs/b.md")])
    assert str(found) == (
        f"src/a.py overlaps src/** held by {ANN} (human ann, task fix, exclusive until 2026-01-01T00:01:00Z)"
    )
    assert found.as_json()["claim"]["fence"] == 3 and "not_connected_since" not in found.as_json()
    found.gone = SINCE
    assert f"holder not connected since {SINCE}" in str(found) and found.as_json()["not_connected_since"] == SINCE
    assert "cannot change what" in Collision([found], "change").message


def test_who_only_shares_is_not_stopped_by_others_who_share() -> None:
    shared = claim("src/**", mode="shared")
    assert Held([shared], shared=True).overlaps([Surface("src/a.py")]) == []
    assert len(Held([shared]).overlaps([Surface("src/a.py")])) == 1


def test_a_checkout_owns_what_its_agents_hold_and_not_the_other_way_round() -> None:
    assert owns(ANN, ANN) and owns("haid:ann.laptop-1a2b", ANN)
    assert not owns(ANN, "haid:ann.laptop-1a2b") and not owns("haid:bob.laptop-1a2b", ANN)


def test_what_lies_outside_of_the_repository_is_refused() -> None:
    assert inside(Surface("src/**")).text == "src/**"
    with pytest.raises(ConfigError, match="outside of this repository"):
        inside(Surface("../other/**"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["task_ref", "fence", "ttl_minutes", "heartbeat", "claimed_at", "mode", "held"]


@given(st.dictionaries(st.sampled_from(NAMES), json_values), st.lists(st.text(max_size=12), max_size=3))
def test_whatever_another_tool_writes_into_a_claim_it_can_be_listed(fields: dict[str, Any], texts: list[str]) -> None:
    found = Claim({**fields, "haid": ANN, "claimed_surfaces": texts})
    assert found.listed().startswith(f"  {ANN}  task ")
    assert found.as_json()["expires_at"] and found.mode in ("shared", "exclusive")
    Held([found]).overlaps([Surface("src/**")])


def test_a_fence_is_a_whole_number_and_true_is_none() -> None:
    assert (claim("a", fence=7).fence, claim("a", fence=True).fence, claim("a", fence="7").fence) == (7, 0, 0)


def test_a_collision_names_each_holder_once_and_says_when_there_may_be_more() -> None:
    one = Overlap("a", "a", claim("a"))
    found = Collision([one, one])
    assert found.message.startswith(f"COLLISION: cannot claim what {ANN} holds\n  a overlaps a held by {ANN}")
    assert "there may be more" not in found.message and len(found.details) == 2
    assert found.details[0]["asked"] == "a" and "not_connected_since" not in found.details[0]
    many = Collision([one] * MOST_SHOWN, "push")
    assert (
        many.message.startswith("COLLISION: cannot push")
        and f"the first {MOST_SHOWN}; there may be more" in many.message
    )
    one.gone = "2026-01-01T00:00:00Z"
    assert one.as_json()["not_connected_since"] == one.gone and "not connected since 2026" in str(one)
