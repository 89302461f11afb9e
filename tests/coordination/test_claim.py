"""One claim as in its file, also as other tools write it; and who blocks whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.coordination.claim import (
    DEFAULT_TTL_MINUTES,
    MAX_TTL_MINUTES,
    Claim,
    Held,
)
from treadle.coordination.surfaces import Surface

ANN = "haid:ann.laptop-1a2b/coder"
SINCE = "2026-01-01T00:00:00Z"


def claim(*surfaces: str, **fields: Any) -> Claim:
    return Claim({"haid": ANN, "claimed_surfaces": list(surfaces), "claimed_at": SINCE, **fields})


@pytest.mark.parametrize(
    ("ttl", "minutes"),
    [(5, 5), (0.5, 0.5), ("5", DEFAULT_TTL_MINUTES), (True, DEFAULT_TTL_MINUTES), (1e12, MAX_TTL_MINUTES)],
)
def test_a_claim_lasts_as_long_as_it_says_within_bounds(ttl: object, minutes: float) -> None:
    assert claim("src/**", ttl_minutes=ttl).ttl == minutes * 60


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
