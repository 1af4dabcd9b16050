"""Fields of jobs, steps, nodes, partitions and reservations: one entry each, for all commands that show them.

`job_fields`, `step_fields` and so on are the registries. An entry names the columns of a row that the field needs, and the
function that returns its value. The commands' own tables add the title, key or width, and the text form. `key_lines` and
the `*_json` modules hold the layouts that several commands share.
"""
