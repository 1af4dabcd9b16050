"""The log viewer: line buffer, search, filter, colors."""
