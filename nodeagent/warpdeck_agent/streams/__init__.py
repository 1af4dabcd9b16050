"""Byte streams between jobs and the controller: log files, terminals, flow control."""
