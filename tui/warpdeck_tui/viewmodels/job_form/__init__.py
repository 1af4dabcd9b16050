"""View models of the form for a new job: its fields, sources, presets, script and sweep."""
