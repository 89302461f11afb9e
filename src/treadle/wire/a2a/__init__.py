"""The Agent2Agent protocol over JSON-RPC and HTTP: versions 1.0 and 0.3."""
