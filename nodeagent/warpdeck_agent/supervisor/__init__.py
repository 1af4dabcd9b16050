"""The supervisor: the small process that starts jobs, outlives the agent, and records how jobs end."""
