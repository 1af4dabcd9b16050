"""Jobs that have ended, records of jobs of any age, and measurements over time."""
