"""View models of sessions, search and notifications."""
