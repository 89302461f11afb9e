"""Files that decide what runs later outside any sandbox: an agent needs a person's approval to change them. Pure.

One list, for the file tools and for the sandbox, at every depth of a workspace.
"""

import posixpath

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
    *(
        "QWEN.md",
        "opencode.json",
        "opencode.jsonc",
        ".cursorrules",
        ".windsurfrules",
        ".goosehints",
        ".aider.conf.yml",
        ".rules",
    ),
    *("copilot-instructions.md", ".gitlab-ci.yml", "Jenkinsfile", ".travis.yml", "azure-pipelines.yml"),
    *("bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml", ".appveyor.yml", "appveyor.yml"),
}
LEADING = {name.partition("/")[0] for name in DIRECTORIES if "/" in name}
"""Directories of which only a part is obeyed."""
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


_FOLDED = frozenset(map(str.casefold, (*NAMES, *DIRECTORIES)))
"""Some file systems make no difference between capitals and small letters."""


def is_usual_at_top(name: str) -> bool:
    """Whether a dot file or directory of this name at the top of a project is known to be harmless."""
    return name in USUAL_AT_TOP or name == ".env" or name.startswith((".env.", ".coverage."))


def leads(path: str) -> bool:
    """Whether a link of this name puts files of another place where they are obeyed."""
    return posixpath.basename(path).casefold() in LEADING


def begins(path: str) -> bool:
    """Whether this is itself such a file, or a directory with all that is in it."""
    folder, name = posixpath.split(path.casefold())
    if name in _FOLDED or name.endswith(ENDINGS):
        return True
    return f"{posixpath.basename(folder)}/{name}" in _FOLDED
