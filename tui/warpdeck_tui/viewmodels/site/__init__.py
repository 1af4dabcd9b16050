"""View models of the site: rules, usage, history, what-if."""
