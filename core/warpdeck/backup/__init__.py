"""Backups of a controller's home: make one, check one, and restore one.

A backup is one file, a tar archive compressed with gzip. Its members ("parts") are:

    state.db                  a copy of the database at one moment, made with SQLite's backup API
    config.toml, known_hosts  if the home has them
    trees/UID/TREE.tar.gz     packed code snapshots, and their digests (only with --trees)
    ssh/...                   the private key for SSH into jobs (only with --keys)
    manifest.json             the last member: versions, time, counters, and the SHA-256 of each other part

An archive without its last member is incomplete, and each command refuses it.

A restore first writes all new files into the folder `restore.new` of the home and checks them. Renaming this folder to
`restore` is the moment of the decision: before it, the home has its old state, and after it the new one. `pending`
then moves each old file into the dated folder and each new file to its place. If it is killed, the next controller
or the next `warpdeck restore`, `backup` or `verify` finishes the moves, which is safe to repeat.

`verify` never changes a database: it copies it into a private folder and checks the copy.
"""
