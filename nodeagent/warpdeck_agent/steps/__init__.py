"""The steps on the node: their start, streams, limits and end."""
