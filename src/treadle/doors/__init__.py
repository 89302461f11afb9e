"""Agents offered on wires: one folder per protocol."""
