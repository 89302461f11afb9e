"""What can be called over HTTP: `calls` is the table; `serve.server` imports all that fills it, and describes it."""
