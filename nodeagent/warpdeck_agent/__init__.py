"""What runs on a node: a small agent that starts jobs, watches GPUs and reports, and the wire it speaks.

Python 3.9 or newer; standard library and pynvml only, because it is shipped as one zipapp over SSH.
"""
