"""A site under random kills of its controller: `python -m tests.chaos --seconds 600 --seed 1`."""
