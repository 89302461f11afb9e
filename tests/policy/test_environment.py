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


SECRETS = (
    *("GIT_CONFIG_VALUE_0", "GIT_CONFIG_KEY_0", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_ASKPASS", "GIT_SSH"),
    *("NPM_CONFIG__AUTH", "npm_config__auth", "NPM_CONFIG__PASSWORD", "npm_config_//npm.example/:_authToken", "GH_PAT"),
    *("OPENAI_KEY", "GITLAB_PAT", "AZURE_DEVOPS_EXT_PAT", "UV_PUBLISH_PASSWORD", "UV_INDEX_OWN_PASSWORD", "MY_KEY"),
    *("UV_INDEX_OWN_USERNAME", "POETRY_HTTP_BASIC_OWN_PASSWORD", "POETRY_PYPI_TOKEN_PYPI", "PIP_CLIENT_CERT", "AUTH"),
    *(
        "CARGO_REGISTRY_TOKEN",
        "CARGO_REGISTRIES_OWN_TOKEN",
        "BUNDLE_GEMS__EXAMPLE",
        "BUNDLE_RUBYGEMS__PKG__GITHUB__COM",
    ),
    *("COMPOSER_AUTH", "NUGET_AUTH", "VSS_NUGET_EXTERNAL_FEED_ENDPOINTS", "MAVEN_PASS", "GRADLE_PUBLISH_KEY", "DSN"),
    *("ORG_GRADLE_PROJECT_signingKey", "SENTRY_DSN", "DATABASE_URL", "REDIS_URL", "MONGODB_URI", "AMQP_URL", "PGPASS"),
    *("SSHPASS", "VAULT_ADDR_AND_PASS", "SLACK_WEBHOOK", "TWILIO_SID", "STRIPE_SK", "HF_HOME_KEY", "KAGGLE_KEY"),
    *("AWS_SESSION", "AWS_PROFILE_DATA", "GOOGLE_APPLICATION_JSON", "KUBE_BEARER", "DOCKER_AUTH_CONFIG", "CONDA_TOKEN"),
    *("HOMEBREW_GITHUB_API", "NODE_AUTH", "YARN_NPM_AUTH_IDENT", "PYTHON_KEYRING_PASS", "R_PAT", "RUBY_KEY", "LC_KEY"),
)
INSIDE = {
    **{"PIP_INDEX_URL": "https://me:s3@pypi.example/", "UV_INDEX": "own=https://s3cret@pypi.example/simple"},
    **{
        "GOPROXY": "https://u:p@go.example",
        "HTTPS_PROXY": "http://me:pw@proxy:1",
        "GOFLAGS": "-x=sk-ant-api03-" + "A" * 40,
    },
    **{"MAVEN_OPTS": "-Xmx1g -Dhttp.proxyPassword=x", "NODE_OPTIONS": "--token=ghp_" + "a1B2" * 9},
}


def test_no_secret_comes_through_under_a_name_that_no_list_has_nor_in_a_value() -> None:
    assert len(SECRETS) >= 54 and reduced({**dict.fromkeys(SECRETS, "s3cret"), **INSIDE}) == {}
    usual = {"PIP_INDEX_URL": "https://pypi.example/", "MAVEN_OPTS": "-Xmx1g -Da=b", "HTTPS_PROXY": "http://proxy:1"}
    assert reduced(usual) == usual and reduced(INSIDE, ["PIP_INDEX_URL"]).keys() == {"PIP_INDEX_URL"}


def test_what_someone_sets_for_tools_reaches_them_but_never_the_keys_that_we_use_ourselves() -> None:
    assert given({**PARENT, **dict.fromkeys(KEYS, "k")}) == {
        name: value for name, value in PARENT.items() if name != "ANTHROPIC_API_KEY"
    }
    assert given({"ANTHROPIC_CUSTOM_HEADERS": "x-key: k"}) == {}


def test_all_but_secrets_is_inherited_and_what_is_left_out_is_named() -> None:
    key = "sk-ant-api03-AAAABBBBCCCCDDDD-eeee_ffff"
    environ = {"Z_TOKEN": "t", "PATH": "/bin", "LOOKS": f"x {key}", "LATE": "x" * 8191 + f" {key}", "MINE": "1"}
    ours = {"ANTHROPIC_API_KEY": "k"}
    passed, left = inherited({**environ, **ours})
    assert set(passed) == {"PATH", "LATE", "MINE"} and left == ["ANTHROPIC_API_KEY", "LOOKS", "Z_TOKEN"]
    passed, left = inherited({**environ, **ours}, ["Z_TOKEN", "ANTHROPIC_API_KEY"])
    assert passed == {name: environ[name] for name in ("Z_TOKEN", "PATH", "LATE", "MINE")}
    assert left == ["ANTHROPIC_API_KEY", "LOOKS"]
