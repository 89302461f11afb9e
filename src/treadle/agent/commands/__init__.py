"""Slash commands: what a person can tell the session itself, rather than the model."""
