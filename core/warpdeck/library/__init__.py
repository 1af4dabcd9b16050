"""The Python library: `Client`, `AsyncClient` and `Executor`. `import warpdeck` loads each class at its first
use.
"""
