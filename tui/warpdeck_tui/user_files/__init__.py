"""Files in the user's configuration folder: settings, keys, themes, presets, saved views."""
