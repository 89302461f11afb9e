"""An agent run for one prompt, or for a stream of them, from a script."""
