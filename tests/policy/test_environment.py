from treadle.policy.environment import KEYS, given, inherited, reduced

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
    assert "MYANTHROPIC_X" not in reduced({"MYANTHROPIC_X": "1", "PATHS": "2"}, providers=True)


def test_what_someone_sets_for_tools_reaches_them_but_never_the_keys_that_we_use_ourselves() -> None:
    assert given({**PARENT, **dict.fromkeys(KEYS, "k")}) == {
        name: value for name, value in PARENT.items() if name != "ANTHROPIC_API_KEY"
    }


def test_all_but_secrets_is_inherited_and_what_is_left_out_is_named() -> None:
    key = "sk-ant-api03-AAAABBBBCCCCDDDD-eeee_ffff"
    environ = {"Z_TOKEN": "t", "PATH": "/bin", "LOOKS": f"x {key}", "LATE": "x" * 8191 + f" {key}", "MINE": "1"}
    ours = {"ANTHROPIC_API_KEY": "k"}
    passed, left = inherited({**environ, **ours})
    assert set(passed) == {"PATH", "LATE", "MINE"} and left == ["ANTHROPIC_API_KEY", "LOOKS", "Z_TOKEN"]
    passed, left = inherited({**environ, **ours}, ["Z_TOKEN", "ANTHROPIC_API_KEY"])
    assert passed == {name: environ[name] for name in ("Z_TOKEN", "PATH", "LATE", "MINE")}
    assert left == ["ANTHROPIC_API_KEY", "LOOKS"]
