"""What can be called over HTTP: `calls` is the table, `openapi` imports all that fills it, and describes it."""
