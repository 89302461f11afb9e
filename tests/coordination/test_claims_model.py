"""Claims compared with a small model, for any sequence of what agents may do."""

import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from treadle.coordination.claims import Claims, Collision
from treadle.coordination.planning import Planning
from treadle.errors import Denied, NotFound

AGENTS = [f"haid:a.box-000{number}" for number in range(3)]
FILES = ["a/x", "a/y", "b/x", "b/y"]
SURFACES = {
    "a/x": {"a/x"},
    "a": {"a/x", "a/y"},
    "b/**": {"b/x", "b/y"},
    "*/x": {"a/x", "b/x"},
    "**": set(FILES),
    "[b]/y": {"b/y"},
}
"""Each surface, and which of the four files it covers; any two that overlap do so in one of them."""


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.now = 1_781_179_647.0
        self.claims = Claims(Planning(f"{self.directory}/.planning", clock=lambda: self.now), self.directory)
        self.held: dict[str, tuple[dict[str, bool], float, float]] = {}
        """HAID -> its surfaces and whether each is shared, when it ends, how long it lasts."""
        self.last_fence = 0

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    def in_the_way(self, haid: str, files: set[str], shared: bool) -> bool:
        return any(
            other != haid and self.now < ends and files & SURFACES[text] and not (shared and their_shared)
            for other, (theirs, ends, _) in self.held.items()
            for text, their_shared in theirs.items()
        )

    def reap(self) -> None:
        self.held = {haid: claim for haid, claim in self.held.items() if self.now < claim[1]}

    @rule(
        haid=st.sampled_from(AGENTS),
        surfaces=st.lists(st.sampled_from(sorted(SURFACES)), min_size=1, max_size=2),
        minutes=st.integers(1, 5),
        shared=st.booleans(),
    )
    def claim(self, haid: str, surfaces: list[str], minutes: int, shared: bool) -> None:
        files = set().union(*(SURFACES[surface] for surface in surfaces))
        refused = self.in_the_way(haid, files, shared)
        self.reap()
        try:
            made = self.claims.claim(haid, surfaces, "T", minutes, shared=shared)
        except Collision:
            assert refused
            return
        assert not refused
        assert made.fence == self.last_fence + 1
        self.last_fence = made.fence
        before, _, lasted = self.held.get(haid, ({}, 0.0, 0.0))
        assert made.texts == [*before, *(text for text in dict.fromkeys(surfaces) if text not in before)]
        lasts = max(lasted, minutes * 60)
        self.held[haid] = ({**before, **dict.fromkeys(surfaces, shared)}, self.now + lasts, lasts)

    @rule(haid=st.sampled_from(AGENTS), surface=st.sampled_from(sorted(SURFACES)))
    def release_one(self, haid: str, surface: str) -> None:
        known = self.held.get(haid)
        try:
            released = self.claims.release(haid, surfaces=[surface])
        except NotFound:
            assert known is not None and surface not in known[0]
            return
        assert (released is None) == (known is None)
        if known is not None:
            del known[0][surface]
            if not known[0]:
                self.held.pop(haid)

    @rule(haid=st.sampled_from(AGENTS))
    def release(self, haid: str) -> None:
        assert (self.claims.release(haid) is not None) == (haid in self.held)
        self.held.pop(haid, None)

    @rule(haid=st.sampled_from(AGENTS), other=st.sampled_from(AGENTS))
    def release_anothers(self, haid: str, other: str) -> None:
        if haid != other and other in self.held:
            try:
                self.claims.release(haid, other)
            except Denied:
                return
            raise AssertionError("anybody could release it")

    @rule(haid=st.sampled_from(AGENTS))
    def heartbeat(self, haid: str) -> None:
        known = self.held.get(haid)
        try:
            renewed = self.claims.heartbeat(haid)
        except NotFound:
            assert known is None
            return
        except Collision:
            assert known is not None and self.now >= known[1]
            return
        assert known is not None
        if self.now >= known[1]:
            self.last_fence += 1
            assert renewed.fence == self.last_fence
        self.held[haid] = (known[0], self.now + known[2], known[2])

    @rule(seconds=st.sampled_from([1, 59, 61, 200]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(haid=st.sampled_from(AGENTS), surface=st.sampled_from(sorted(SURFACES)), shared=st.booleans())
    def check(self, haid: str, surface: str, shared: bool) -> None:
        found = self.claims.check(haid, [surface], shared=shared)
        assert bool(found) == self.in_the_way(haid, SURFACES[surface], shared)

    @invariant()
    def what_is_active_is_what_the_model_says(self) -> None:
        active = {haid for haid, claim in self.held.items() if self.now < claim[1]}
        assert {claim.haid for claim in self.claims.active()} == active


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
