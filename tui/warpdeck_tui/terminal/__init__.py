"""The terminal below the app: input, drawing, ASCII fallback, clipboard, and restoring the terminal at the
end.
"""
