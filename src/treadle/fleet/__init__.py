"""Many orders on one machine or many, on NATS JetStream. `client.py` is what commands and HTTP handlers call."""
