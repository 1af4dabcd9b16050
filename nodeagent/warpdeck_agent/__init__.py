"""The agent that runs on a node: it starts jobs, watches GPUs and reports to the controller.

It talks to the controller with the messages in `wire`. It supports Python 3.9 or newer. It uses only the
standard library and pynvml, because it is shipped as one zipapp over SSH.
"""
