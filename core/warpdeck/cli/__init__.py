"""`warpdeck VERB`: each verb in a small module that is imported when it is called, so that every one starts fast."""
