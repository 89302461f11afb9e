"""A point in time as records and logs write it. Light: the terminal supervisor imports this."""

import time


def timestamp(seconds: float) -> str:
    """A value of `time.time()` in UTC, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
