"""The screens: they compose widgets and turn keys into calls."""
