"""Schedulers behind the API server. Each is a package that makes an `Engine` of ports.engine.

native      the controller of this program
"""
