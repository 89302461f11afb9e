"""The Python interface for programs that use agents: one turn, a conversation, their own tools and hooks."""
