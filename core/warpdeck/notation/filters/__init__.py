"""Text forms that select or describe jobs and reservations."""
