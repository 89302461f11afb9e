from treadle.policy.environment import reduced

OURS = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "OPENROUTER_API_KEY": "k",
    "HEDDLE_MODEL": "m",
    "GITHUB_TOKEN": "t",
    "AWS_SECRET_ACCESS_KEY": "s",
    "LD_PRELOAD": "x",
}


def test_a_child_sees_what_programs_need_and_no_secret() -> None:
    assert reduced(OURS) == {"PATH": "/bin", "LC_ALL": "C"}


def test_a_child_that_is_an_agent_sees_its_providers_keys_too() -> None:
    assert set(reduced(OURS, providers=True)) == {"PATH", "LC_ALL", "OPENROUTER_API_KEY", "HEDDLE_MODEL"}
