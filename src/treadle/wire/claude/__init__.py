"""Claude Code: stream-json with control records, both directions on standard streams."""
