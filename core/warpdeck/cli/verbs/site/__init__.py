"""Verbs of administrators that keep the state of a site safe: backups, a standby, recovery, services, and the audit log."""
