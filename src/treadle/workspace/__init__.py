"""The files an agent works on: git, worktrees, snapshots, and merging changes.

Who may write what is in `policy`; which order works where is in `fleet`.
"""
