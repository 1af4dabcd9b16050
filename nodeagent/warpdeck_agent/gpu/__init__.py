"""GPUs through NVML: readings, health, links, names, and processes that hold their memory."""
