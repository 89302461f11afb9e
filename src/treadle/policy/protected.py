"""Files that decide what runs later, outside of any sandbox: an agent changes them only when a person says so."""

from __future__ import annotations

GIT = ("config", "config.worktree", "hooks", "info/attributes", "commondir")
"""Inside a repository's git directory."""
WORKSPACE = (".treadle", ".claude", ".vscode", ".idea", ".envrc", ".mcp.json")
"""At the top of a workspace."""
