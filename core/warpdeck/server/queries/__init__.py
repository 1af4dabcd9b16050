"""Handlers of requests that read: history, curves, nodes, forecasts."""
