"""All orders as rows to filter and count: an index, which is only a copy of the engine's streams."""
