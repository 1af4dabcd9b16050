"""The audit log: the requested changes with their user, time, origin and outcome.

- `decision` decides whether a request gets an entry, and what the entry says. It is pure.
- `log_file` appends the entries to files of bounded size, and reads them.
- `recorder` connects both with the connections of clients. The server calls it before each answer. An answer therefore
  reaches a client after its entry was written, and the entries stand in the order of the commits.

An entry survives a kill of the controller. It is not synchronized to disk, so a power cut may lose the last seconds.
"""
