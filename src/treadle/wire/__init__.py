"""Protocols as pure functions and state, one folder each. No I/O."""
