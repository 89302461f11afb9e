"""Which environment variables a child process may see: an allow-list, never what looks like a secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from treadle.policy.patterns import wildcard
from treadle.redact import is_secret_name

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
    *("CCACHE_*", "SCCACHE_*", "MISE_*", "ASDF_*", "HOMEBREW_*", "NIX_*", "TREADLE_HOME", "HEIMDALL_*"),
)
PROVIDERS = (
    *("ANTHROPIC_*", "CLAUDE_*", "OPENAI_*", "CODEX_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "OPENCODE_*", "GROQ_*"),
    *("MISTRAL_*", "DEEPSEEK_*", "XAI_*", "AZURE_*", "AWS_*", "VERTEX_*", "CLOUD_ML_REGION", "OLLAMA_*", "HEDDLE_*"),
    *("TREADLE_MODEL", "TREADLE_BASE_URL", "TREADLE_API_KEY"),
)
"""For a driven agent, which calls its model itself; its own children are then its own business."""


def child_environment(
    environ: Mapping[str, str], more: Iterable[str] = (), *, drives_model: bool = False
) -> dict[str, str]:
    """`more` are names from the settings, which may end in `*`. Only a name in full lets a secret through."""
    more = tuple(more)
    named = set(more)
    allowed = (*BASICS, *CONNECTIONS, *TOOLCHAINS, *more)
    return {
        name: value
        for name, value in environ.items()
        if name in named
        or drives_model
        and _among(name, PROVIDERS)
        or _among(name, allowed)
        and not is_secret_name(name)
    }


def _among(name: str, patterns: tuple[str, ...]) -> bool:
    return any(wildcard(pattern, name) for pattern in patterns)
