"""The full-screen app: draws what the controller tells, and asks it for everything the command line can ask."""
