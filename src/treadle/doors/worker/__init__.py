"""An agent offered as a worker process."""
