"""What watchers follow: the engine's streams read once (`feed`), by topic, over a WebSocket or server-sent events."""
