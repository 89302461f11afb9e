"""A foreign worker process as an agent."""
