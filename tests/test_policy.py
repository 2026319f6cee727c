"""The table of consequences, as data: every outcome's rest, doubling and caps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy import CONSEQUENCES, Tuning, rest_s, spent_s
from providers._words import Left, Outcome, Reply

DAY_S = 86_400.0
FAILING = [each for each in Outcome if each not in (Outcome.OK, Outcome.NO_RESULTS)]


def rests(outcome: Outcome, streaks: int = 1, tuning: Tuning | None = None, **reply: object) -> list[float]:
    """The rests of that many failures in a row."""
    told = Reply(outcome, **reply)  # type: ignore[arg-type]
    return [rest_s(told, tuning or Tuning(), streak) for streak in range(1, streaks + 1)]


def test_every_outcome_has_a_consequence() -> None:
    assert set(CONSEQUENCES) == set(Outcome)


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.NO_RESULTS])
def test_an_answer_brings_no_rest_and_clears_the_streak(outcome: Outcome) -> None:
    assert rests(outcome, 3) == [0, 0, 0]
    assert CONSEQUENCES[outcome].streak == "clears"


def test_a_request_error_brings_no_rest_and_no_streak() -> None:
    assert rests(Outcome.REQUEST_ERROR, 3) == [0, 0, 0]
    assert CONSEQUENCES[Outcome.REQUEST_ERROR].streak == "stays"


@pytest.mark.parametrize("outcome", [Outcome.RATE_LIMITED, Outcome.SERVER_ERROR])
def test_a_throttle_and_a_server_error_rest_60_s_doubled_up_to_an_hour(outcome: Outcome) -> None:
    assert rests(outcome, 8) == [60, 120, 240, 480, 960, 1920, 3600, 3600]


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.NETWORK])
def test_a_timeout_and_a_network_fault_rest_30_s_doubled_up_to_an_hour(outcome: Outcome) -> None:
    assert rests(outcome, 9) == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_an_exhausted_quota_rests_six_hours_and_never_doubles() -> None:
    assert rests(Outcome.QUOTA_EXHAUSTED, 3) == [21_600] * 3


def test_quota_retry_s_is_the_operators_and_0_is_no_rest() -> None:
    assert rests(Outcome.QUOTA_EXHAUSTED, 2, Tuning(quota_retry_s=600)) == [600, 600]
    assert rests(Outcome.QUOTA_EXHAUSTED, 2, Tuning(quota_retry_s=0)) == [0, 0]


def test_quota_rests_are_capped_at_32_days_and_not_by_cooldown_max_s() -> None:
    assert rests(Outcome.QUOTA_EXHAUSTED, retry_after_s=31 * DAY_S) == [31 * DAY_S]
    assert rests(Outcome.QUOTA_EXHAUSTED, retry_after_s=400 * DAY_S) == [32 * DAY_S]
    assert rests(Outcome.QUOTA_EXHAUSTED, tuning=Tuning(quota_retry_s=99 * DAY_S)) == [32 * DAY_S]
    assert rests(Outcome.QUOTA_EXHAUSTED, tuning=Tuning(most_s=0)) == [21_600]


def test_a_key_that_is_out_for_auth_is_kept_so_for_a_day() -> None:
    assert rests(Outcome.AUTH_FAILURE, 3) == [DAY_S] * 3
    assert rests(Outcome.AUTH_FAILURE, tuning=Tuning(most_s=0)) == [DAY_S]
    assert rests(Outcome.AUTH_FAILURE, retry_after_s=5) == [DAY_S]


@pytest.mark.parametrize("outcome", [Outcome.RATE_LIMITED, Outcome.SERVER_ERROR, Outcome.QUOTA_EXHAUSTED])
def test_the_vendors_own_time_comes_first_and_is_not_doubled(outcome: Outcome) -> None:
    assert rests(outcome, 3, retry_after_s=90.5) == [90.5] * 3


@pytest.mark.parametrize("outcome", [Outcome.RATE_LIMITED, Outcome.SERVER_ERROR])
def test_the_vendors_time_is_capped_by_cooldown_max_s(outcome: Outcome) -> None:
    assert rests(outcome, retry_after_s=10 * DAY_S) == [3600]
    assert rests(outcome, tuning=Tuning(most_s=100), retry_after_s=101) == [100]


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.NETWORK])
def test_whoever_timed_out_names_no_time(outcome: Outcome) -> None:
    assert rests(outcome, 2, retry_after_s=500) == [30, 60]


@pytest.mark.parametrize("outcome", [each for each in FAILING if each is not Outcome.REQUEST_ERROR])
def test_cooldown_max_s_caps_every_rest_but_those_that_only_a_reset_or_a_person_ends(outcome: Outcome) -> None:
    capped = rests(outcome, 6, Tuning(most_s=45))
    if outcome in (Outcome.QUOTA_EXHAUSTED, Outcome.AUTH_FAILURE):
        assert min(capped) > 45
    else:
        assert max(capped) == 45


@pytest.mark.parametrize("outcome", [Outcome.RATE_LIMITED, Outcome.TIMEOUT, Outcome.NETWORK, Outcome.SERVER_ERROR])
def test_cooldown_max_s_0_is_no_resting_even_when_the_vendor_names_a_time(outcome: Outcome) -> None:
    assert rests(outcome, 3, Tuning(most_s=0), retry_after_s=60) == [0, 0, 0]


def test_a_setup_fault_rests_five_minutes_without_a_streak() -> None:
    assert rests(Outcome.REQUEST_ERROR, 3, setup=True) == [300] * 3
    assert rests(Outcome.REQUEST_ERROR, 1, Tuning(most_s=0), setup=True) == [0]


def test_where_the_vendors_file_knows_better_its_throttle_rests_longer_and_nothing_else_does() -> None:
    duckduckgo = Tuning(limited_s=900, most_s=21_600)
    assert rests(Outcome.RATE_LIMITED, 7, duckduckgo) == [900, 1800, 3600, 7200, 14_400, 21_600, 21_600]
    assert rests(Outcome.SERVER_ERROR, 2, duckduckgo) == [60, 120]
    assert rests(Outcome.TIMEOUT, 2, duckduckgo) == [30, 60]


def test_the_configured_default_is_where_doubling_begins() -> None:
    assert rests(Outcome.RATE_LIMITED, 3, Tuning(throttle_s=7)) == [7, 14, 28]
    assert rests(Outcome.TIMEOUT, 3, Tuning(throttle_s=7)) == [30, 60, 120]


@given(
    st.sampled_from(list(Outcome)),
    st.integers(1, 10**9),
    st.floats(0, 1e7) | st.just(0.0),
    st.none() | st.floats(0, 1e12),
    st.booleans(),
)
def test_a_rest_is_finite_never_negative_never_over_its_cap_and_never_falls_as_a_streak_grows(
    outcome: Outcome, streak: int, most_s: float, told_s: float | None, setup: bool
) -> None:
    tuning = Tuning(most_s=most_s)
    reply = Reply(outcome, retry_after_s=told_s, setup=setup)
    length = rest_s(reply, tuning, streak)
    assert math.isfinite(length)
    assert 0 <= length <= max(most_s, 32 * DAY_S if outcome is Outcome.QUOTA_EXHAUSTED else DAY_S)
    assert length <= rest_s(reply, tuning, streak + 1)


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.QUOTA_EXHAUSTED, Outcome.AUTH_FAILURE}))
@pytest.mark.parametrize(
    ("left", "seconds"),
    [
        (Left(0, 2000, 600), 600),
        (Left(0, None, 600), 600),
        (Left(0, 2000, 0), 1),
        (Left(0, 2000, 90 * DAY_S), 32 * DAY_S),
        (Left(0, 2000, None), 0),
        (Left(1, 2000, 600), 0),
        (None, 0),
    ],
)
def test_nothing_left_until_a_known_time_is_a_rest_whatever_the_reply(
    outcome: Outcome, left: Left | None, seconds: float
) -> None:
    assert spent_s(Reply(outcome, left=left)) == seconds


@pytest.mark.parametrize("outcome", [Outcome.QUOTA_EXHAUSTED, Outcome.AUTH_FAILURE])
def test_a_reply_that_is_about_the_key_or_its_quota_has_its_own_rest_alone(outcome: Outcome) -> None:
    assert spent_s(Reply(outcome, left=Left(0, 2000, 600))) == 0
