"""What watchers follow, by topic, over a WebSocket or server-sent events. `serve/fleet_link.py` feeds it."""
