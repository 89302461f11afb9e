"""The files an agent works on: git, worktrees, snapshots, and bringing changes together."""
