"""Builds the rows that clients and exporters see from the state. Pure: nothing here changes the state."""
