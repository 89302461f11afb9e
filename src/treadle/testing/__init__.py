"""Public helpers for testing agents with no paid model and no network: scripted models over HTTP, faulty peers."""
