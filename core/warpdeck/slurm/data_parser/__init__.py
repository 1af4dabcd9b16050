"""JSON and YAML in the layouts of Slurm's data_parser plugins, from v0.0.41 (Slurm 24.05) to v0.0.45 (26.05).

Without a version, the commands print the layout of Slurm 22.05, which `fields.job_json` and its neighbors define.
`output` reads the value of --json and prints the document. Each other module has one kind of object.
"""
