"""Many orders on one machine or many, on NATS JetStream. Commands and HTTP handlers call what is in `client.py`."""
