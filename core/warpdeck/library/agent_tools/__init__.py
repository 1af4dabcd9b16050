"""Tools with which a coding agent uses the cluster, over the Model Context Protocol (MCP).

tools    the tools as methods, without the protocol
server   offers them over standard input and output, with the `mcp` SDK
"""
