"""Files that decide what runs later outside any sandbox: an agent needs a person's approval to change them. Pure."""

import posixpath

WORKSPACE = (".treadle", ".claude", ".vscode", ".idea", ".envrc", ".mcp.json")
"""At the top of a workspace. The sandbox protects these; the guard of the file tools protects the rest."""
HOME = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile"),
    *(".zlogin", ".gitconfig", ".ssh", ".config/git", ".config/fish", ".config/systemd", ".config/autostart"),
    ".local/bin",
)
"""In a home directory. The sandbox also protects these when the workspace is the whole home directory."""
DIRECTORIES = {*WORKSPACE, ".git", ".circleci", ".buildkite", ".husky", ".devcontainer", ".github/workflows"}
NAMES = {
    *(".envrc", ".mcp.json", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".gitlab-ci.yml", "Jenkinsfile", ".travis.yml"),
    *("azure-pipelines.yml", "bitbucket-pipelines.yml", ".drone.yml", ".gitmodules", ".pre-commit-config.yaml"),
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile"),
    *(".zlogin", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".gitconfig", ".npmrc", ".pypirc", ".netrc"),
}


def is_protected(path: str) -> bool:
    """Whether writing this file needs approval in every mode but yolo, wherever it lies."""
    if posixpath.basename(path) in NAMES:
        return True
    whole = posixpath.normpath(path) + "/"
    return any(f"/{directory}/" in f"/{whole}" for directory in DIRECTORIES)
