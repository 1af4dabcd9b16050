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


def accepted(bucket: TokenBucket, size_bytes: int = SHORT) -> int:
    """Return the number of messages of that size that are accepted at once."""
    return next(number for number in range(2 * MAX_MESSAGES) if not bucket.spend(size_bytes))


def test_a_flood_is_stopped_at_the_limit_and_refills_slowly() -> None:
    clock = Clock()
    bucket = TokenBucket(clock)
    assert accepted(bucket) == MAX_MESSAGES
    clock.now += 10.0
    assert accepted(bucket) <= 10 * MESSAGES_PER_SECOND


def test_long_messages_cost_more() -> None:
    assert accepted(TokenBucket(Clock()), 99 * MESSAGE_BYTES) == MAX_MESSAGES // 100


def test_a_node_may_report_every_one_of_many_short_jobs() -> None:
    bucket = TokenBucket(Clock())
    for _ in range(3 * MAX_MESSAGES // MESSAGES_PER_LAUNCH):
        bucket.earn()
        assert all(bucket.spend(SHORT) for _ in range(MESSAGES_PER_LAUNCH))


def test_earned_tokens_are_capped_at_the_limit() -> None:
    bucket = TokenBucket(Clock())
    for _ in range(MAX_MESSAGES):
        bucket.earn()
    assert accepted(bucket) == MAX_MESSAGES


def test_a_welcome_costs_one_token_per_report_in_it() -> None:
    bucket = TokenBucket(Clock())
    assert bucket.spend(0, messages=MAX_MESSAGES // 2) and not bucket.spend(0, messages=MAX_MESSAGES)
