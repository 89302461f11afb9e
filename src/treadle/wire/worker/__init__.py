"""The headless worker protocol: JSON lines between a client and an agent worker (seed 000)."""
