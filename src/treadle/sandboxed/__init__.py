"""The sandbox of a session."""
