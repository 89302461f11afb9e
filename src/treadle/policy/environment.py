"""Which environment variables a child may see: those that programs need, and no secret that it was not given. Light."""

from collections.abc import Iterable, Mapping

from treadle.redact import Redactor, is_secret_name

_LOOKED_AT = 8192
"""Characters of a value that are searched for what looks like a key."""

BASICS = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "HOSTNAME", "TERM", "COLORTERM", "TERMINFO", "NO_COLOR"),
    *(
        "FORCE_COLOR",
        "CI",
        "LANG",
        "LANGUAGE",
        "LC_*",
        "TZ",
        "TMPDIR",
        "TMP",
        "TEMP",
        "XDG_*",
        "EDITOR",
        "VISUAL",
        "PAGER",
    ),
    *("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "WSL*"),
    *("TREADLE_HOME", "HEIMDALL_*"),
)
CONNECTIONS = (
    *("GIT_*", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_TTY", "GNUPGHOME", "KRB5CCNAME", "DOCKER_HOST"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
)
TOOLCHAINS = (
    *(
        "VIRTUAL_ENV",
        "CONDA_*",
        "PYTHON*",
        "PYENV_*",
        "PIP_*",
        "UV_*",
        "POETRY_*",
        "PIPX_*",
        "HATCH_*",
        "TOX_*",
        "MYPY*",
    ),
    *("CARGO_*", "RUSTUP_*", "RUST_*", "RUSTFLAGS", "GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS"),
    *("GOPRIVATE", "GOBIN", "CGO_*", "JAVA_HOME", "JDK_*", "MAVEN_*", "M2_HOME", "GRADLE_*", "ANDROID_*", "KOTLIN_*"),
    *("NODE_*", "NVM_*", "NPM_CONFIG_*", "npm_config_*", "YARN_*", "PNPM_*", "BUN_*", "DENO_*", "VOLTA_*", "FNM_*"),
    *("RUBY*", "GEM_*", "BUNDLE_*", "RBENV_*", "DOTNET_*", "NUGET_*", "PERL5LIB", "LUA_*", "R_*", "GHCUP_*", "OPAM*"),
    *(
        "CC",
        "CXX",
        "CPP",
        "LD",
        "AR",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "LDFLAGS",
        "MAKEFLAGS",
        "CMAKE_*",
        "PKG_CONFIG_*",
    ),
    *("CCACHE_*", "SCCACHE_*", "MISE_*", "ASDF_*", "HOMEBREW_*", "NIX_*"),
)
PROVIDERS = (
    *("ANTHROPIC_*", "CLAUDE_*", "OPENAI_*", "CODEX_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "OPENCODE_*", "GROQ_*"),
    *("MISTRAL_*", "DEEPSEEK_*", "XAI_*", "AZURE_OPENAI_*", "VERTEX_*", "CLOUD_ML_REGION", "OLLAMA_*", "HEDDLE_*"),
    "TREADLE_*",
)
"""Variables with which an agent reaches its model. For agents only: a tool's child does not need a key."""


def reduced(environ: Mapping[str, str], more: Iterable[str] = (), *, providers: bool = False) -> dict[str, str]:
    """The part of `environ` for a child; with `providers`, for a child that is an agent itself.

    `more` are names from the settings, which may end in `*`. A secret is passed on only when its full name is given.
    """
    more = tuple(more)
    allowed = (*BASICS, *CONNECTIONS, *TOOLCHAINS, *more)
    return {
        name: value
        for name, value in environ.items()
        if name in more or providers and _among(name, PROVIDERS) or _among(name, allowed) and not is_secret_name(name)
    }


KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "TREADLE_API_KEY")
"""The keys with which we reach a model ourselves: no tool gets them, no matter who names them."""


def given(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that someone set for tools by name: all of them, but not the keys that we use ourselves."""
    return {name: value for name, value in environ.items() if name not in KEYS}


def inherited(environ: Mapping[str, str], more: Iterable[str] = ()) -> tuple[dict[str, str], list[str]]:
    """The environment less secrets, and the names of what was left out. `more` are names that pass nevertheless."""
    more, seen = tuple(more), Redactor()
    passed, left = {}, []
    for name, value in environ.items():
        secret = is_secret_name(name) or next(seen.found(value[:_LOOKED_AT]), None) is not None
        if secret and name not in more or name in KEYS:
            left.append(name)
        else:
            passed[name] = value
    return passed, sorted(left)


def _among(name: str, patterns: tuple[str, ...]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)
