"""Base class, dialogs and parts that several screens use."""
