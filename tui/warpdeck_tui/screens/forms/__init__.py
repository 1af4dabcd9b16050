"""Screens of the forms for a new job, a sweep and a shell."""
