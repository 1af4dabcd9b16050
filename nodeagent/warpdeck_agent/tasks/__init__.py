"""One task of a step: its process, CPU binding, terminal, PMI connection and usage."""
