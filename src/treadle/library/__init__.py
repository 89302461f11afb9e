"""The Python interface for programs that use agents: one turn, a conversation, their own tools and hooks.

Nothing is decided here that a command could not do: it calls what lies below.
"""
