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


PARENT = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "VIRTUAL_ENV": "/v",
    "SSH_AUTH_SOCK": "/s",
    "https_proxy": "http://p",
    "MY_SETTING": "1",
    "ANTHROPIC_API_KEY": "k",
    "ANTHROPIC_BASE_URL": "u",
    "GITHUB_TOKEN": "t",
    "GIT_TOKEN": "t",
    "NPM_CONFIG_TOKEN": "t",
    "DB_PASSWORD": "p",
}


def test_children_see_the_basics_and_no_secret() -> None:
    assert set(reduced(PARENT)) == {"PATH", "LC_ALL", "VIRTUAL_ENV", "SSH_AUTH_SOCK", "https_proxy"}


def test_settings_add_names_and_prefixes_but_a_prefix_adds_no_secret() -> None:
    assert "MY_SETTING" in reduced(PARENT, ["MY_*"])
    assert "GITHUB_TOKEN" not in reduced(PARENT, ["GITHUB_*", "*"])
    assert reduced(PARENT, ["GITHUB_TOKEN"])["GITHUB_TOKEN"] == "t"


def test_an_agent_that_calls_its_own_model_gets_the_providers_variables() -> None:
    seen = reduced(PARENT, providers=True)
    assert seen["ANTHROPIC_API_KEY"] == "k" and seen["ANTHROPIC_BASE_URL"] == "u"
    assert "GITHUB_TOKEN" not in seen
