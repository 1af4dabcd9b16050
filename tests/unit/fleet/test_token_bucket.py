"""The rate limit of an agent's messages: it always admits answers to our requests, and little beyond them."""

from __future__ import annotations

from warpdeck.fleet.token_bucket import MOST_WORDS, WORD_BYTES, WORDS_A_LAUNCH, WORDS_A_SECOND, TokenBucket

SHORT = 100


class Clock:
    """A clock that advances only when the test sets it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def said(allowance: TokenBucket, size_bytes: int = SHORT) -> int:
    """Return the number of messages of that size that are accepted at once."""
    return next(number for number in range(2 * MOST_WORDS) if not allowance.spend(size_bytes))


def test_a_flood_is_over_soon_and_begins_again_slowly() -> None:
    clock = Clock()
    allowance = TokenBucket(clock)
    assert said(allowance) == MOST_WORDS
    clock.now += 10.0
    assert said(allowance) <= 10 * WORDS_A_SECOND


def test_long_messages_count_for_more() -> None:
    assert said(TokenBucket(Clock()), 99 * WORD_BYTES) == MOST_WORDS // 100


def test_a_node_that_runs_short_jobs_without_end_may_tell_of_all_of_them() -> None:
    allowance = TokenBucket(Clock())
    for _ in range(3 * MOST_WORDS // WORDS_A_LAUNCH):
        allowance.earn()
        assert all(allowance.spend(SHORT) for _ in range(WORDS_A_LAUNCH))


def test_what_was_earned_is_no_right_to_a_flood() -> None:
    allowance = TokenBucket(Clock())
    for _ in range(MOST_WORDS):
        allowance.earn()
    assert said(allowance) == MOST_WORDS


def test_a_welcome_counts_as_all_that_it_tells_of() -> None:
    allowance = TokenBucket(Clock())
    assert allowance.spend(0, words=MOST_WORDS // 2) and not allowance.spend(0, words=MOST_WORDS)
