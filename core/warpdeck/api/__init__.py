"""The client API: messages over the controller's Unix socket. Importing this package imports no submodule.

protocol.py  what may be asked; rows.py, noderows.py, siterows.py  what is answered; sync.py  a small blocking client for
the command line (standard library only); client.py  the asyncio client that the TUI uses; server.py  the controller's side.
"""
