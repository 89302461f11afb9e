"""Files that decide what runs later outside any sandbox (an agent needs a person's approval to change them), and where
credentials are. Pure.

One list, for the file tools and for the sandbox, at every depth of a workspace.
"""

import posixpath

# Where a person's credentials and histories are: confined programs cannot read them unless the settings say so. Pure.
#
# `~/.npmrc`, `~/.config/pip` and similar files are not here: package managers do not start without them. A rule such
# as `Read(~/.npmrc)` hides them too.

CREDENTIALS = (
    *(".ssh", ".gnupg", ".netrc", ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials"),
    *(".aws", ".azure", ".boto", ".s3cfg", ".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub"),
    *(
        ".docker",
        ".kube",
        ".config/containers/auth.json",
        ".config/helm/registry",
        ".terraform.d/credentials.tfrc.json",
    ),
    *(".config/doctl", ".config/rclone", ".config/op", ".config/sops", ".vault-token", ".fly", ".oci", ".ibmcloud"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".pypirc", ".m2/settings-security.xml"),
    *(
        ".password-store",
        ".local/share/keyrings",
        ".local/share/kwalletd",
        ".pki",
        ".pgpass",
        ".my.cnf",
        ".mylogin.cnf",
    ),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/opera", ".config/vivaldi", "snap/firefox", "snap/chromium"),
    *(".bash_history", ".zsh_history", ".zhistory", ".history", ".sh_history", ".local/share/fish/fish_history"),
    *(".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".lesshst"),
    *(".rediscli_history", ".irb_history", ".viminfo", ".local/share/xonsh"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".gemini/google_accounts.json"),
    *(".qwen/oauth_creds.json", ".local/share/opencode/auth.json", ".config/github-copilot", ".copilot"),
    *(".config/goose/secrets.yaml", ".config/amp", ".local/share/amp/secrets.json", ".config/cursor/auth.json"),
    *(".factory/auth.json", ".aider.conf.yml", ".continue/config.json"),
)
"""In a home directory. The last three lines are other agents'; a driven agent has its own places anyway."""
VARIABLES = (
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "BOTO_CONFIG", "CLOUDSDK_CONFIG"),
    *("DOCKER_CONFIG", "GH_CONFIG_DIR", "GNUPGHOME", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "NETRC"),
    *("PASSWORD_STORE_DIR", "PGPASSFILE", "HISTFILE", "REGISTRY_AUTH_FILE"),
)
"""Variables that name such a file or directory, or several with colons between."""

WORKSPACE = (".treadle", ".claude", ".vscode", ".idea", ".envrc", ".mcp.json")
"""At the top of a workspace, and kept from an order too, which may change the others in its own directory."""
SHELL_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile"),
    *(".zlogin", ".gitconfig"),
)
HOME = (
    *SHELL_FILES,
    *(".ssh", ".config/git", ".config/fish", ".config/systemd", ".config/autostart", ".local/bin"),
)
"""In a home directory. The sandbox also protects these when the workspace is the whole home directory."""
DIRECTORIES = {
    *WORKSPACE,
    *(".git", ".husky", ".githooks", ".devcontainer", ".fleet", ".zed", ".mvn", ".cargo/config", ".cargo/config.toml"),
    *(
        ".yarn/releases",
        ".yarn/plugins",
        ".bundle/config",
        ".circleci",
        ".buildkite",
        ".woodpecker",
        ".github/workflows",
    ),
    *(".github/actions", ".gitea/workflows", ".forgejo/workflows", ".gitlab/ci", ".agents", ".codex", ".gemini"),
    *(".cursor", ".opencode", ".qwen", ".windsurf", ".continue", ".roo", ".clinerules", ".junie", ".kiro", ".amazonq"),
    *(".github/hooks", ".github/instructions", ".github/prompts", ".github/agents", ".factory", ".goose", ".copilot"),
}
NAMES = {
    *SHELL_FILES,
    *(".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".npmrc", ".pypirc", ".netrc", ".yarnrc", ".yarnrc.yml"),
    *(".pnpmfile.cjs", ".bazelrc", ".tool-versions", ".mise.toml", "mise.toml", ".gdbinit", ".lldbinit", ".exrc"),
    *(".vimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".gitmodules", ".pre-commit-config.yaml", "lefthook.yml"),
    *(".lefthook.yml", "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"),
    *("QWEN.md", "opencode.json", ".cursorrules", ".windsurfrules", ".goosehints", ".aider.conf.yml", ".rules"),
    *("copilot-instructions.md", ".gitlab-ci.yml", "Jenkinsfile", ".travis.yml", "azure-pipelines.yml"),
    *("bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml", ".appveyor.yml", "appveyor.yml"),
}
ENDINGS = (".code-workspace", ".sublime-project")
USUAL_AT_TOP = {
    *(".gitignore", ".gitattributes", ".gitkeep", ".keep", ".mailmap", ".git-blame-ignore-revs", ".editorconfig"),
    *(".dockerignore", ".npmignore", ".prettierignore", ".eslintignore", ".stylelintignore", ".helmignore"),
    *(".nvmrc", ".node-version", ".python-version", ".ruby-version", ".java-version", ".nojekyll", ".DS_Store"),
    *(".venv", ".cache", ".coverage", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
    *(".eggs", ".ipynb_checkpoints", ".nyc_output", ".next", ".nuxt", ".output", ".turbo", ".parcel-cache", ".tmp"),
    *(".svelte-kit", ".angular", ".vite", ".expo", ".gradle", ".dart_tool", ".stack-work", ".build", ".zig-cache"),
    *(".eslintcache", ".stylelintcache", ".pnpm-store", ".bloop", ".metals", ".terraform.lock.hcl", ".uv-cache"),
}
"""Dot files and directories at the top of a project that tell no program what to run: lists of files, versions, and
caches. Every other one that a project does not have yet may be the settings of some program."""
PACKAGES = {"node_modules", "site-packages", ".tox", ".nox", ".pnpm-store", "bower_components"}
"""Directories that package managers fill, with such files of others that no program obeys there. The sandbox does not
look into them."""


def is_protected(path: str) -> bool:
    """Whether writing this file needs approval in every mode but yolo, wherever it lies."""
    path = posixpath.normpath(path)
    while path not in ("/", ".", ""):
        if begins(path):
            return True
        path = posixpath.dirname(path)
    return False


def is_usual_at_top(name: str) -> bool:
    """Whether a dot file or directory of this name at the top of a project is known to be harmless."""
    return name in USUAL_AT_TOP or name == ".env" or name.startswith((".env.", ".coverage."))


def begins(path: str) -> bool:
    """Whether this is itself such a file, or a directory with all that is in it."""
    name = posixpath.basename(path)
    if name in NAMES or name in DIRECTORIES or name.endswith(ENDINGS):
        return True
    return posixpath.join(posixpath.basename(posixpath.dirname(path)), name) in DIRECTORIES
