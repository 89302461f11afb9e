"""What of a person's environment and home directory a program may see: lists of what is let in. Light."""

import re
from collections.abc import Iterable, Mapping

from treadle.redact import Redactor, is_secret_name

_LOOKED_AT = 8192
"""Characters of a value that are searched for what looks like a key."""

# Variables, by whole names: a prefix such as GIT_ would also let GIT_CONFIG_VALUE_0 in, with a token in it.

BASICS = (
    "PATH HOME USER LOGNAME SHELL PWD HOSTNAME TERM COLORTERM TERMINFO NO_COLOR FORCE_COLOR CLICOLOR CI TZ LANG "
    "LANGUAGE LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME LC_MONETARY LC_PAPER LC_NAME LC_ADDRESS "
    "LC_TELEPHONE LC_MEASUREMENT LC_IDENTIFICATION TMPDIR TMP TEMP XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME "
    "XDG_STATE_HOME XDG_RUNTIME_DIR XDG_CONFIG_DIRS XDG_DATA_DIRS EDITOR VISUAL PAGER LESS MANPATH INFOPATH COLUMNS "
    "LINES DISPLAY WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS LD_LIBRARY_PATH DYLD_LIBRARY_PATH WSL_DISTRO_NAME "
    "WSL_INTEROP WSLENV DEBIAN_FRONTEND SOURCE_DATE_EPOCH DEBUG TREADLE_HOME HEIMDALL_HAID HEIMDALL_PLANNING_DIR "
    "HEIMDALL_RUN HEIMDALL_GUARD_BYPASS HEIMDALL_SESSION_ID HEIMDALL_ALLOW HEIMDALL_TOOL HEIMDALL_PROCESS"
)
CONNECTIONS = (
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE "
    "GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_EDITOR "
    "GIT_SEQUENCE_EDITOR GIT_PAGER GIT_TERMINAL_PROMPT GIT_CEILING_DIRECTORIES GIT_LFS_SKIP_SMUDGE GIT_SSL_CAINFO "
    "GIT_DEFAULT_HASH SSH_AUTH_SOCK SSH_AGENT_PID GPG_TTY GNUPGHOME KRB5CCNAME DOCKER_HOST HTTP_PROXY HTTPS_PROXY "
    "ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE "
    "CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS HTTPLIB2_CA_CERTS NIX_SSL_CERT_FILE PIP_CERT"
)
TOOLCHAINS = (
    "VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_SHLVL "
    "CONDA_ENVS_PATH CONDA_PKGS_DIRS PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED "
    "PYTHONIOENCODING PYTHONUTF8 PYTHONWARNINGS PYTHONNOUSERSITE PYTHONUSERBASE PYTHONPYCACHEPREFIX PYTHONDEVMODE "
    "PYTHONFAULTHANDLER PYTHONOPTIMIZE PYENV_ROOT PYENV_VERSION PYENV_SHELL PIP_CACHE_DIR PIP_CONSTRAINT PIP_NO_INPUT "
    "PIP_DEFAULT_TIMEOUT PIP_DISABLE_PIP_VERSION_CHECK PIP_FIND_LINKS PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_NO_INDEX "
    "PIP_NO_CACHE_DIR PIP_REQUIRE_VIRTUALENV PIP_TRUSTED_HOST PIP_ROOT_USER_ACTION PIP_BREAK_SYSTEM_PACKAGES "
    "UV_CACHE_DIR UV_DEFAULT_INDEX UV_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_PYTHON UV_OFFLINE "
    "UV_PYTHON_DOWNLOADS UV_PYTHON_PREFERENCE UV_PYTHON_INSTALL_DIR UV_TOOL_DIR UV_TOOL_BIN_DIR UV_LINK_MODE "
    "UV_NATIVE_TLS UV_PROJECT_ENVIRONMENT UV_SYSTEM_PYTHON UV_NO_PROGRESS POETRY_HOME POETRY_CACHE_DIR "
    "POETRY_VIRTUALENVS_IN_PROJECT POETRY_VIRTUALENVS_CREATE POETRY_VIRTUALENVS_PATH PIPX_HOME PIPX_BIN_DIR "
    "PIPENV_VENV_IN_PROJECT WORKON_HOME HATCH_DATA_DIR HATCH_CACHE_DIR MYPYPATH MYPY_CACHE_DIR COVERAGE_FILE "
    "PYTEST_ADDOPTS CARGO_HOME CARGO_TARGET_DIR CARGO_BUILD_TARGET CARGO_BUILD_JOBS CARGO_INCREMENTAL "
    "CARGO_NET_OFFLINE CARGO_TERM_COLOR RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTUP_AUTO_INSTALL RUST_BACKTRACE RUST_LOG "
    "RUST_MIN_STACK RUST_TEST_THREADS RUSTFLAGS RUSTDOCFLAGS RUSTC_WRAPPER GOPATH GOROOT GOBIN GOCACHE GOMODCACHE "
    "GOPROXY GOFLAGS GOPRIVATE GONOPROXY GONOSUMDB GOSUMDB GOTOOLCHAIN GOOS GOARCH GOWORK GO111MODULE CGO_ENABLED "
    "CGO_CFLAGS CGO_CXXFLAGS CGO_LDFLAGS JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS JDK_HOME MAVEN_HOME MAVEN_OPTS M2_HOME "
    "GRADLE_HOME GRADLE_USER_HOME GRADLE_OPTS GRADLE_RO_DEP_CACHE SBT_OPTS ANDROID_HOME ANDROID_SDK_ROOT "
    "ANDROID_NDK_HOME KOTLIN_HOME SDKMAN_DIR NODE_ENV NODE_OPTIONS NODE_PATH NVM_DIR NVM_BIN NVM_INC NPM_CONFIG_CACHE "
    "NPM_CONFIG_REGISTRY NPM_CONFIG_PREFIX NPM_CONFIG_LOGLEVEL npm_config_cache npm_config_registry npm_config_prefix "
    "npm_config_loglevel YARN_CACHE_FOLDER YARN_NPM_REGISTRY_SERVER PNPM_HOME BUN_INSTALL DENO_DIR DENO_INSTALL "
    "VOLTA_HOME FNM_DIR FNM_MULTISHELL_PATH COREPACK_HOME COREPACK_ENABLE_DOWNLOAD_PROMPT PLAYWRIGHT_BROWSERS_PATH "
    "PUPPETEER_EXECUTABLE_PATH CHROME_PATH CHROME_BIN CHROME_CONFIG_HOME RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_PATH "
    "BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_JOBS RBENV_ROOT RBENV_VERSION COMPOSER_HOME COMPOSER_CACHE_DIR "
    "COMPOSER_ALLOW_SUPERUSER COMPOSER_MEMORY_LIMIT PHP_INI_SCAN_DIR DOTNET_ROOT DOTNET_CLI_HOME DOTNET_NOLOGO "
    "DOTNET_CLI_TELEMETRY_OPTOUT NUGET_PACKAGES PERL5LIB PERL_LOCAL_LIB_ROOT LUA_PATH LUA_CPATH R_HOME R_LIBS "
    "R_LIBS_USER GHCUP_INSTALL_BASE_PREFIX CABAL_DIR STACK_ROOT OPAMROOT OPAM_SWITCH_PREFIX OCAMLPATH MIX_HOME "
    "HEX_HOME MIX_ENV CC CXX CPP LD AR AS NM RANLIB STRIP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS MAKEFLAGS CPATH "
    "C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH CMAKE_PREFIX_PATH CMAKE_GENERATOR CMAKE_BUILD_TYPE "
    "CMAKE_BUILD_PARALLEL_LEVEL CMAKE_TOOLCHAIN_FILE PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_LIBDIR CCACHE_DIR "
    "CCACHE_DISABLE SCCACHE_DIR MISE_DATA_DIR MISE_SHELL ASDF_DIR ASDF_DATA_DIR HOMEBREW_PREFIX HOMEBREW_CELLAR "
    "HOMEBREW_REPOSITORY NIX_PATH NIX_PROFILES VCPKG_ROOT BAZELISK_HOME CUDA_HOME CUDA_VISIBLE_DEVICES "
    "OMP_NUM_THREADS RAILS_ENV RACK_ENV APP_ENV DJANGO_SETTINGS_MODULE FLASK_APP"
)
NAMES = frozenset(f"{BASICS} {CONNECTIONS} {TOOLCHAINS}".split())
PROVIDERS = (
    *("ANTHROPIC_*", "CLAUDE_*", "OPENAI_*", "CODEX_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_*", "OPENCODE_*", "GROQ_*"),
    *("MISTRAL_*", "DEEPSEEK_*", "XAI_*", "AZURE_OPENAI_*", "VERTEX_*", "CLOUD_ML_REGION", "OLLAMA_*", "HEDDLE_*"),
    "TREADLE_*",
)
"""Variables with which an agent reaches its model. For agents only: a tool's child does not need a key."""
_PASSWORD = re.compile(r"https?://[^/@\s]+@|://[^/@\s]*:[^/@\s]+@")
_ASSIGNED = re.compile(r"[\w.]+(?==\S)")
_SHORTEST_KEY = 16


def reduced(environ: Mapping[str, str], more: Iterable[str] = (), *, providers: bool = False) -> dict[str, str]:
    """The part of `environ` for a child; with `providers`, for a child that is an agent itself.

    `more` are names from the settings, which may end in `*`. A secret is passed on only when its full name is given.
    """
    more, seen = tuple(more), Redactor()
    return {
        name: value
        for name, value in environ.items()
        if name in more
        or providers
        and _among(name, PROVIDERS)
        or (name in NAMES or _among(name, more) and not is_secret_name(name))
        and not has_secret(value, seen)
    }


def has_secret(value: str, seen: Redactor) -> bool:
    """A key, an address with a password, or an option such as `-Dproxy.password=x`."""
    text = value[:_LOOKED_AT]
    if "=" not in text and "://" not in text and len(text) < _SHORTEST_KEY:
        return False
    named = any(is_secret_name(name.replace(".", "_")) for name in _ASSIGNED.findall(text))
    return named or _PASSWORD.search(text) is not None or next(seen.found(text), None) is not None


KEYS = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"),
    *("OPENAI_API_KEY", "OPENROUTER_API_KEY", "TREADLE_API_KEY"),
)
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


# The home directory in a sandbox is an empty one, in which these places are shown: programs and downloaded packages.
# Of `$VARIABLE/x|y` it is the first that the person has.

PROGRAMS = (
    *(".local/bin", ".local/lib", ".local/include", "bin", ".config/git/ignore", ".config/git/attributes"),
    ".tool-versions",
    *(".local/pipx/venvs", ".local/share/pipx/venvs", ".local/share/uv/python", ".local/share/uv/tools"),
    *("$PYENV_ROOT|.pyenv", "$WORKON_HOME|.virtualenvs", ".local/share/virtualenvs", "$CONDA_PREFIX", ".conda/envs"),
    *("miniconda3", "miniforge3", "anaconda3", "mambaforge", "$VIRTUAL_ENV", "$RUSTUP_HOME|.rustup", ".cargo/env"),
    *(
        "$CARGO_HOME/bin|.cargo/bin",
        "$GOROOT",
        "$GOBIN|$GOPATH/bin|go/bin",
        "sdk",
        "$NVM_DIR|.nvm",
        "$VOLTA_HOME|.volta",
    ),
    *("$FNM_DIR|.local/share/fnm", "$BUN_INSTALL|.bun", "$PNPM_HOME|.local/share/pnpm", ".deno/bin", ".npm-global/bin"),
    *(".npm-global/lib", "$PLAYWRIGHT_BROWSERS_PATH|.cache/ms-playwright", ".cache/puppeteer", ".cache/Cypress"),
    *("$JAVA_HOME", ".sdkman/candidates", ".jdks", "$ANDROID_HOME|Android/Sdk", "$RBENV_ROOT|.rbenv", ".rvm/rubies"),
    *(".rvm/gems", ".gem/ruby", ".local/share/gem", "$GEM_HOME", ".composer/vendor", ".config/composer/vendor"),
    *("$ASDF_DIR|.asdf", "$ASDF_DATA_DIR/installs", "$MISE_DATA_DIR/installs|.local/share/mise/installs"),
    *("$MISE_DATA_DIR/shims|.local/share/mise/shims", ".nix-profile", ".local/state/nix/profiles", ".ghcup", ".opam"),
    *("$DOTNET_ROOT|.dotnet", ".stack/programs", ".elan", ".juliaup", ".mix", "perl5", "R", ".luarocks", "nltk_data"),
)
"""They can be read."""
PACKAGES = (
    *("$PIP_CACHE_DIR|.cache/pip", "$UV_CACHE_DIR|.cache/uv", "$POETRY_CACHE_DIR|.cache/pypoetry", ".cache/pre-commit"),
    *("$CARGO_HOME/registry|.cargo/registry", "$CARGO_HOME/git|.cargo/git", "$GOMODCACHE|$GOPATH/pkg/mod|go/pkg/mod"),
    *("$GOCACHE|.cache/go-build", "$npm_config_cache/_cacache|$NPM_CONFIG_CACHE/_cacache|.npm/_cacache", ".npm/_npx"),
    *(
        ".cache/yarn",
        ".yarn/berry/cache",
        ".cache/pnpm",
        ".cache/node",
        ".cache/node-gyp",
        "$DENO_DIR|.cache/deno",
        ".cache/electron",
    ),
    *(
        ".m2/repository",
        ".m2/wrapper",
        "$GRADLE_USER_HOME/caches|.gradle/caches",
        "$GRADLE_USER_HOME/wrapper|.gradle/wrapper",
    ),
    *(".gradle/jdks", ".konan", ".ivy2/cache", ".cache/coursier", ".sbt/boot", ".bundle/cache", ".cabal/packages"),
    *("$COMPOSER_CACHE_DIR|.cache/composer", ".composer/cache", "$NUGET_PACKAGES|.nuget/packages", ".pub-cache"),
    *("$CCACHE_DIR|.cache/ccache", "$SCCACHE_DIR|.cache/sccache", ".ccache", ".cache/zig", ".cache/bazelisk"),
    *(".cache/huggingface/hub", ".julia/packages", ".julia/artifacts", ".hex/packages", ".cpan/build"),
)
"""They can be written, too: what a session adds is its own and lasts as long."""
SETTINGS = {
    ".npmrc": r"(@[\w.-]+:)?registry|strict-ssl|cafile|fund|audit|yes|nodedir|engine-strict|update-notifier|omit-.*",
    ".config/pip/pip.conf": r"(extra-)?index-url|find-links|trusted-host|timeout|cert|no-index|disable-.*|break-.*",
    ".pip/pip.conf": r"(extra-)?index-url|find-links|trusted-host|timeout|cert|no-index|disable-.*|break-.*",
    ".config/uv/uv.toml": r"url|name|default|(extra-)?index-url|native-tls|offline|python-.*|link-mode",
    ".cargo/config.toml": r"registry|index|replace-with|protocol|git-fetch-with-cli|offline|jobs|local-registry|linker",
    ".config/mise/config.toml": r'(?!.*(token|key|secret|passw|credential))"?[a-z][a-z0-9:@/._-]*"?',
    ".config/go/env": r"GO(PROXY|PRIVATE|NOPROXY|NOSUMDB|SUMDB|FLAGS|TOOLCHAIN|INSECURE)",
}
"""Of these files, which may hold a token, the lines that set one of these, if they have no secret in them."""
_SECTION = re.compile(r"\[+[\w.@\"'-]+\]+")


def harmless_lines(text: str, keys: str) -> str:
    """Those of the lines of a file of settings that set one of these keys, and the headings between them."""
    seen, line = Redactor(), re.compile(rf"({keys})\s*=\s*[^\[{{]*")
    lines = (one.strip() for one in text.splitlines())
    return "".join(
        f"{one}\n" for one in lines if _SECTION.fullmatch(one) or line.fullmatch(one) and not has_secret(one, seen)
    )
