"""Our own count of a vendor's requests, as a file writes it. Pure."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from providers._sections import Section, Unfit, choice, text, whole
from providers._words import Budget


def budget(parent: Section, usual: Budget) -> Budget:
    """The `quota` of `parent`; what is left out is as in `usual`, while the type is."""
    section = parent.section("quota")
    type_ = section.take("type", choice("monthly", "daily", "one_time", "unbounded"), usual.type)
    kept = usual if type_ == usual.type else Budget(type_)
    limit = section.take("limit", whole(0), kept.limit)
    reset_day = section.take("reset_day", whole(1, 31), kept.reset_day)
    timezone = section.take("timezone", _zone, kept.timezone)
    section.close()
    if type_ == "unbounded":
        if section.names("limit"):
            parent.findings.wrong(section.at("limit"), "an unbounded budget has none; name a type beside it")
        limit = None
    elif limit is None and not section.names("limit"):
        parent.findings.wrong(section.at("limit"), f"a {type_} budget needs one")
    if section.names("reset_day") and type_ != "monthly":
        parent.findings.wrong(section.at("reset_day"), "only a monthly budget has one")
    if section.names("timezone") and type_ not in ("monthly", "daily"):
        parent.findings.wrong(section.at("timezone"), "only a monthly or daily budget has one")
    return Budget(type_, limit, reset_day, timezone)


def _zone(value: object) -> str | None:
    name = text(value)
    if not is_zone(name):
        raise Unfit("must be the name of a time zone such as Europe/Berlin")
    return name


def is_zone(name: str) -> bool:
    """Whether this machine knows a time zone called `name`."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; not a relative path; a folder of zones
        return False
    return True
