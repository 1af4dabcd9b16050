"""Clients of the controller's socket, blocking and asyncio, and the client side of submission, terminals
and tunnels.
"""
