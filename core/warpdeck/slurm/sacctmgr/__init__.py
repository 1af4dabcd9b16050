"""sacctmgr: reads and changes accounts, users and QoS in config.toml.

Three tables describe the objects: `entities` has a row for each entity that `show` lists, `editable` a row for each
entity that `add`, `modify` and `delete` change, and `limit_names` a row for each limit. `field_names` lists the fields of
format=. The other modules are functions over these rows: `show_conditions`, `matching` and `showing` serve `show`;
`change_arguments`, `setting_values`, `adding`, `modifying`, `deleting` and `changing` serve the changes.
"""
