"""Jobs: finding them, their rows, submissions, and orders that change them."""
