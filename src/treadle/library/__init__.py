"""For programs that put agents to work: one turn, a conversation, tools and hooks of their own."""
