"""Agents offered on wires: one file per protocol."""
