"""Edits config.toml in place and keeps its comments and layout."""
