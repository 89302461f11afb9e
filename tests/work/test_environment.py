from treadle.work.environment import child_environment

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
    assert set(child_environment(PARENT)) == {"PATH", "LC_ALL", "VIRTUAL_ENV", "SSH_AUTH_SOCK", "https_proxy"}


def test_settings_add_names_and_prefixes_but_a_prefix_adds_no_secret() -> None:
    assert "MY_SETTING" in child_environment(PARENT, ["MY_*"])
    assert "GITHUB_TOKEN" not in child_environment(PARENT, ["GITHUB_*", "*"])
    assert child_environment(PARENT, ["GITHUB_TOKEN"])["GITHUB_TOKEN"] == "t"


def test_an_agent_that_calls_its_own_model_gets_the_providers_variables() -> None:
    seen = child_environment(PARENT, drives_model=True)
    assert seen["ANTHROPIC_API_KEY"] == "k" and seen["ANTHROPIC_BASE_URL"] == "u"
    assert "GITHUB_TOKEN" not in seen
