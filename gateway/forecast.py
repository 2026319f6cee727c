"""How long what is left will last, at the rate of the last 24 hours. Pure."""

from __future__ import annotations

from datetime import date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gateway.policy import DAY_S

FAR_S = 3650 * DAY_S
"""Nobody plans further ahead than this, and dates that far are no news."""


class Recent(NamedTuple):
    """Requests since midnight, `elapsed_s` seconds ago, and on the day before, which was `yesterday_s` seconds long."""

    today: int
    yesterday: int
    elapsed_s: float
    yesterday_s: float = DAY_S

    @property
    def per_day(self) -> float:
        """Requests in the last 24 hours: those of today, and yesterday's for the part of it that lies within.

        Whatever the hour, it is never more than both days together and, once today is over, no less than today's.
        """
        within = (DAY_S - self.elapsed_s) / self.yesterday_s
        return self.today + self.yesterday * min(max(within, 0.0), 1.0)


class Forecast(NamedTuple):
    """`until` is the day on which all will be used up, None when it lasts, or longer than anybody plans."""

    until: date | None
    words: str


def forecast(
    left: int, per_day: float, now: float, renewed: float | None, timezone: str | None, whose: str
) -> Forecast | None:
    """What becomes of `left` requests at `per_day`; None when nothing was used, for that is no rate.

    `now` and `renewed` (when there will be enough again, None: never, or unknown) are seconds since the epoch; days are
    those of `timezone` (None: this machine's). `whose` names what is left, at the beginning of a sentence's end.
    """
    if per_day <= 0:
        return None
    zone = ZoneInfo(timezone) if timezone else None
    if left <= 0:
        back = f" until {_day(renewed, zone)}" if renewed is not None and renewed - now <= FAR_S else ""
        return Forecast(_day(now, zone), f"{whose} is used up{back}")
    rate = f"at today's rate ({_a_day(per_day)})"
    lasts_s = left / per_day * DAY_S
    if renewed is not None and lasts_s >= renewed - now:
        return Forecast(None, f"{rate} {whose} lasts the period")
    if lasts_s > FAR_S:
        return Forecast(None, f"{rate} {whose} lasts more than ten years")
    until = _day(now + lasts_s, zone)
    return Forecast(until, f"{rate} {whose} lasts until {until}")


def _day(moment: float, zone: ZoneInfo | None) -> date:
    return datetime.fromtimestamp(moment, zone).date()


def _a_day(per_day: float) -> str:
    return f"{per_day:.0f} a day" if per_day >= 1 else "less than one a day"
