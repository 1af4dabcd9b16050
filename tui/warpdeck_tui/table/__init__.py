"""The one table of actions, and the key bindings, help lines and colors that are made from it."""
