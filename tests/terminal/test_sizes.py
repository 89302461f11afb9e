import pytest

from treadle.terminal.clients import choose


@pytest.mark.parametrize(
    ("policy", "size"),
    [("latest", (90, 50)), ("smallest", (80, 24)), ("leader", (200, 24)), ("fixed", None)],
)
def test_each_policy_chooses_its_own_size(policy: str, size: tuple[int, int] | None) -> None:
    assert choose(policy, [(200, 24), (80, 60), (90, 50)], (90, 50)) == size


@pytest.mark.parametrize("policy", ["latest", "smallest", "leader", "fixed"])
def test_with_nobody_there_the_size_stays(policy: str) -> None:
    assert choose(policy, [], None) is None
