"""All orders as rows to filter, count and search: an index, which is only a copy of the engine's streams."""
