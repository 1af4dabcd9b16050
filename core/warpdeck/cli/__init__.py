"""The command line, `warpdeck VERB`.

`index` lists the verbs. Each verb is a row of data (`verb`, `slurm_verb`) in a module of `verbs`, which is imported only if the
verb is called, so verbs start fast. `parser` turns a row into an argument parser and its help.
"""
