"""The agent's own folder on disk, and the scripts and temporary folders of launches."""
