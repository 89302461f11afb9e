"""What the user configured, and which projects the user trusts."""
