"""The rate limit of an agent's messages: it always admits answers to our requests, and little beyond them."""

from __future__ import annotations

from warpdeck.fleet.token_bucket import MOST_WORDS, WORD_BYTES, WORDS_A_LAUNCH, WORDS_A_SECOND, TokenBucket

SHORT = 100


class Clock:
    """A clock that advances only when the test sets it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def accepted(bucket: TokenBucket, size_bytes: int = SHORT) -> int:
    """Return the number of messages of that size that are accepted at once."""
    return next(number for number in range(2 * MOST_WORDS) if not bucket.spend(size_bytes))


def test_a_flood_is_stopped_at_the_limit_and_refills_slowly() -> None:
    clock = Clock()
    bucket = TokenBucket(clock)
    assert accepted(bucket) == MOST_WORDS
    clock.now += 10.0
    assert accepted(bucket) <= 10 * WORDS_A_SECOND


def test_long_messages_cost_more() -> None:
    assert accepted(TokenBucket(Clock()), 99 * WORD_BYTES) == MOST_WORDS // 100


def test_a_node_may_report_every_one_of_many_short_jobs() -> None:
    bucket = TokenBucket(Clock())
    for _ in range(3 * MOST_WORDS // WORDS_A_LAUNCH):
        bucket.earn()
        assert all(bucket.spend(SHORT) for _ in range(WORDS_A_LAUNCH))


def test_earned_tokens_are_capped_at_the_limit() -> None:
    bucket = TokenBucket(Clock())
    for _ in range(MOST_WORDS):
        bucket.earn()
    assert accepted(bucket) == MOST_WORDS


def test_a_welcome_costs_one_token_per_report_in_it() -> None:
    bucket = TokenBucket(Clock())
    assert bucket.spend(0, words=MOST_WORDS // 2) and not bucket.spend(0, words=MOST_WORDS)
