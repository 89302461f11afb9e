"""The files an agent works on: git, worktrees, snapshots, and merging changes."""
