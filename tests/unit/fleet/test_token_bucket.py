"""The rate limit of an agent's messages: it always admits answers to our requests, and little beyond them."""

from __future__ import annotations

from warpdeck.fleet.token_bucket import (
    MAX_MESSAGES,
    MESSAGE_BYTES,
    MESSAGES_PER_LAUNCH,
    MESSAGES_PER_SECOND,
    TokenBucket,
)

SHORT = 100


class Clock:
    """A clock that advances only when the test sets it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def said(allowance: TokenBucket, size_bytes: int = SHORT) -> int:
    """Return the number of messages of that size that are accepted at once."""
    return next(number for number in range(2 * MAX_MESSAGES) if not allowance.spend(size_bytes))


def test_a_flood_is_over_soon_and_begins_again_slowly() -> None:
    clock = Clock()
    allowance = TokenBucket(clock)
    assert said(allowance) == MAX_MESSAGES
    clock.now += 10.0
    assert said(allowance) <= 10 * MESSAGES_PER_SECOND


def test_long_messages_count_for_more() -> None:
    assert said(TokenBucket(Clock()), 99 * MESSAGE_BYTES) == MAX_MESSAGES // 100


def test_a_node_that_runs_short_jobs_without_end_may_tell_of_all_of_them() -> None:
    allowance = TokenBucket(Clock())
    for _ in range(3 * MAX_MESSAGES // MESSAGES_PER_LAUNCH):
        allowance.earn()
        assert all(allowance.spend(SHORT) for _ in range(MESSAGES_PER_LAUNCH))


def test_what_was_earned_is_no_right_to_a_flood() -> None:
    allowance = TokenBucket(Clock())
    for _ in range(MAX_MESSAGES):
        allowance.earn()
    assert said(allowance) == MAX_MESSAGES


def test_a_welcome_counts_as_all_that_it_tells_of() -> None:
    allowance = TokenBucket(Clock())
    assert allowance.spend(0, messages=MAX_MESSAGES // 2) and not allowance.spend(0, messages=MAX_MESSAGES)
