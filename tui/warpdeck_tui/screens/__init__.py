"""The screens: they compose widgets, draw what the board says, and turn keys into calls."""
