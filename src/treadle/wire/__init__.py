"""Protocols as pure functions and state, one file each. No I/O."""
