"""Widgets that draw immutable view models line by line. They know nothing about jobs or the network."""
