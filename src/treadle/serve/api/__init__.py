"""What can be called over HTTP: `calls` is the table, `all_calls` fills it, `openapi` describes it."""
