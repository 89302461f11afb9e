"""A foreign sidecar as an agent."""
