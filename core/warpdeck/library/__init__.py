"""warpdeck in a program: `Client`, `AsyncClient` and `Executor`. `import warpdeck` loads each of them when it is first named."""
