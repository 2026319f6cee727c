"""Who may be asked, in which order, with which settings, and by which way out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import providers
from gateway.config import ProviderSettings, load, show
from tests.configured import KEYED, Home, chain, provider


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# who is asked


def test_the_built_in_chain_is_whoever_is_configured(home: Home) -> None:
    joining = [name for name in providers.names() if providers.find(name).joins == "built_in"]
    last = [name for name in providers.names() if providers.find(name).joins == "last_resort"]
    assert chain(load(KEYED)) == [*joining, *last]
    config = load({"EXA_API_KEY": "k", "BOCHA_API_KEY": "k"})
    keyless = [name for name in [*joining, *last] if providers.find(name).credential is None]
    assert chain(config) == ["bocha", "exa", *keyless]
    assert not provider(config, "brave").in_chain


def test_a_list_decides_alone_and_its_order_counts(home: Home) -> None:
    config = home.load(
        {"providers": [{"name": "exa"}, {"name": "brave"}, {"name": "bocha", "enabled": False}]}, **KEYED
    )
    assert chain(config) == ["exa", "brave"]
    assert [each.name for each in config.providers][:2] == ["exa", "brave"]
    assert len(config.providers) == len(providers.names())
    assert config.origins["providers"] == "file"


def test_an_empty_list_means_nobody(home: Home) -> None:
    assert home.load({"providers": []}, **KEYED).chain == ()


def test_a_listed_provider_without_a_key_is_in_the_chain_and_left_out(home: Home) -> None:
    config = home.load({"providers": [{"name": "brave"}, {"name": "exa"}]}, EXA_API_KEY="k")
    assert (provider(config, "brave").in_chain, provider(config, "brave").keys) == (True, ())
    assert chain(config) == ["exa"]


def test_a_variable_names_the_chain_and_the_file_tunes_it(home: Home) -> None:
    content = {"providers": [{"name": "exa", "quota": {"limit": 7}}, {"name": "brave", "enabled": False}]}
    config = home.load(content, **KEYED, WEBSEARCH_PROVIDERS="brave，exa")
    assert chain(config) == ["brave", "exa"]
    assert provider(config, "exa").budget.limit == 7
    assert config.warnings == ("WEBSEARCH_PROVIDERS: names 'brave', which the file switches off: it is on",)


def test_unknown_and_repeated_names_are_mistakes_in_list_and_variable(home: Home) -> None:
    valid = ", ".join(providers.names())
    config = home.load({"providers": [{"name": "exa"}, {"name": "exa"}]}, WEBSEARCH_PROVIDERS="tavilly,brave,brave")
    assert config.errors == (
        "providers[exa]: is listed more than once",
        f"WEBSEARCH_PROVIDERS: no provider is called 'tavilly'; did you mean 'tavily'? valid names: {valid}",
        "WEBSEARCH_PROVIDERS: names 'brave' more than once",
    )
    assert load({"WEBSEARCH_PROVIDERS": " , "}).errors == ("WEBSEARCH_PROVIDERS: names nobody",)


def test_a_key_that_other_programs_use_too_counts_only_when_listed() -> None:
    assert "grok" in chain(load({"GROK_API_KEY": "k"}))
    unlisted = load({"XAI_API_KEY": "xai-shared"})
    grok = provider(unlisted, "grok")
    assert (grok.keys, grok.in_chain, grok.credential_env) == ((), False, "GROK_API_KEY")
    assert "xai-shared" in unlisted.secrets
    grok = provider(load({"XAI_API_KEY": "xai-shared", "WEBSEARCH_PROVIDERS": "grok"}), "grok")
    assert (grok.keys, grok.in_chain, grok.credential_env) == (("xai-shared",), True, "XAI_API_KEY")
    grok = provider(load({"XAI_API_KEY": "x", "GROK_API_KEY": "k", "WEBSEARCH_PROVIDERS": "grok"}), "grok")
    assert (grok.keys, grok.credential_env) == (("k",), "GROK_API_KEY")


def test_a_shared_key_is_never_sent_to_a_relay() -> None:
    relay = {"GROK_API_URL": "https://relay.example/v1", "WEBSEARCH_PROVIDERS": "grok"}
    assert provider(load(relay | {"GROK_API_KEY": "k"}), "grok").address == "https://relay.example/v1"
    config = load(relay | {"XAI_API_KEY": "xai-shared"})
    assert provider(config, "grok").address is None
    assert config.warnings == ("GROK_API_URL: is not used with XAI_API_KEY; it needs GROK_API_KEY",)


# ---------------------------------------------------------------------------------------------------------------------
# one provider's settings


def brave(home: Home, **entry: object) -> ProviderSettings:
    config = home.load({"providers": [{"name": "brave", **entry}]}, **KEYED)
    assert config.errors == ()
    return provider(config, "brave")


def test_setting_one_thing_leaves_the_vendors_other_defaults(home: Home) -> None:
    vendor = providers.find("brave")
    tuned = brave(home, quota={"limit": 500})
    assert tuned.budget == replace(vendor.budget, limit=500)
    assert (tuned.interval_ms, tuned.timeout_ms, tuned.quota_retry_s) == (vendor.min_interval_ms, 10_000, 21600)


def test_a_quota_merges_while_its_type_stays_and_is_replaced_with_another(home: Home) -> None:
    assert vars_of(brave(home, quota={"reset_day": 31})) == ("monthly", 1000, 31, None)
    assert vars_of(brave(home, quota={"type": "monthly", "timezone": "Asia/Shanghai"})) == (
        "monthly",
        1000,
        15,
        "Asia/Shanghai",
    )
    assert vars_of(brave(home, quota={"type": "daily", "limit": 9})) == ("daily", 9, 1, None)
    assert vars_of(brave(home, quota={"type": "one_time", "limit": 0})) == ("one_time", 0, 1, None)
    assert vars_of(brave(home, quota={"type": "unbounded"})) == ("unbounded", None, 1, None)


def vars_of(settings: ProviderSettings) -> tuple[str, int | None, int, str | None]:
    return (settings.budget.type, settings.budget.limit, settings.budget.reset_day, settings.budget.timezone)


@pytest.mark.parametrize(
    ("quota", "complaint"),
    [
        ({"type": "daily"}, "limit: a daily budget needs one"),
        ({"type": "unbounded", "limit": 5}, "limit: an unbounded budget has none; name a type beside it"),
        ({"type": "daily", "limit": 5, "reset_day": 3}, "reset_day: only a monthly budget has one"),
        ({"type": "one_time", "limit": 5, "timezone": "UTC"}, "timezone: only a monthly or daily budget has one"),
        ({"limit": -1}, "limit: must be a whole number from 0 to 1000000000, not -1"),
        ({"limit": 1.5}, "limit: must be a whole number from 0 to 1000000000, not 1.5"),
        ({"reset_day": 0}, "reset_day: must be a whole number from 1 to 31, not 0"),
        ({"reset_day": 32}, "reset_day: must be a whole number from 1 to 31, not 32"),
        ({"timezone": "Mars/Olympus"}, "timezone: must be the name of a time zone such as Europe/Berlin"),
        ({"timezone": "../../etc/passwd"}, "timezone: must be the name of a time zone such as Europe/Berlin"),
        ({"timezone": "America"}, "timezone: must be the name of a time zone such as Europe/Berlin"),
        (
            {"type": "montly"},
            "type: must be one of 'monthly', 'daily', 'one_time', 'unbounded'; did you mean 'monthly'?",
        ),
    ],
)
def test_a_quota_that_cannot_be_is_told_at_its_place(home: Home, quota: object, complaint: str) -> None:
    config = home.load({"providers": [{"name": "brave", "quota": quota}]})
    assert config.errors == (f"providers[brave].quota.{complaint}",)


def test_budgets_turn_over_in_the_zone_that_tz_names() -> None:
    assert provider(load({"TZ": "Asia/Shanghai"}), "brave").budget.timezone == "Asia/Shanghai"
    assert provider(load({"TZ": ":Europe/Berlin"}), "brave").budget.timezone == "Europe/Berlin"
    assert provider(load({"TZ": "CST6CDT,M3.2.0,M11.1.0"}), "brave").budget.timezone is None
    assert provider(load({"TZ": "UTC"}), "searxng").budget.timezone is None, "an unbounded budget never turns over"


@pytest.mark.parametrize(
    ("entry", "interval_ms"),
    [
        ({"local_qps": 0.5}, 2000),
        ({"local_qps": 10}, 100),
        ({"local_qps": 3}, 334),
        ({"min_interval_ms": 250}, 250),
        ({"local_qps": 2, "min_interval_ms": 700}, 700),
        ({"local_qps": 1, "min_interval_ms": 700}, 1000),
        ({"local_qps": 0}, 0),
        ({"min_interval_ms": 0}, 0),
        ({"local_qps": 0, "min_interval_ms": 0}, 0),
        ({"local_qps": 0, "min_interval_ms": 40}, 40),
        ({}, 1000),
    ],
)
def test_the_slower_of_two_paces_holds_and_replaces_the_vendors(
    home: Home, entry: dict[str, object], interval_ms: int
) -> None:
    assert brave(home, **entry).interval_ms == interval_ms


def test_a_pace_below_all_reason_is_a_mistake(home: Home) -> None:
    config = home.load({"providers": [{"name": "brave", "local_qps": 1e-300, "min_interval_ms": 0.5}]})
    assert config.errors == (
        "providers[brave].local_qps: must be 0 (off), or from 0.001 a second",
        "providers[brave].min_interval_ms: must be a whole number from 0 to 1000000000, not 0.5",
    )


def test_rests_are_capped_by_provider_then_vendor_then_default(home: Home) -> None:
    assert brave(home).cooldown_max_s == 3600
    assert brave(home, cooldown_max_s=0).cooldown_max_s == 0
    for content in ({"defaults": {"cooldown_max_s": 7}}, {"defaults": {"cooldown_max_s": 7}, "providers": []}):
        config = home.load(content)
        for each in config.providers:
            own = providers.find(each.name).rest_max_s
            assert each.cooldown_max_s == (7 if own is None else own)


def test_a_vendors_own_count_is_asked_for_as_often_as_is_set_and_never_without(home: Home) -> None:
    assert brave(home).vendor_usage_every_s == 0
    assert brave(home, vendor_usage_every_s=0.5).vendor_usage_every_s == 0.5
    shown = show(home.load({"providers": [{"name": "brave", "vendor_usage_every_s": 900}]}))
    assert shown["providers"]["brave"]["vendor_usage_every_s"] == {"value": 900, "from": "file"}


def test_time_limits_are_the_providers_then_the_slow_vendors_then_the_default(home: Home) -> None:
    assert brave(home, timeout_ms=1).timeout_ms == 1
    config = home.load({"defaults": {"timeout_ms": 4000}})
    for each in config.providers:
        own = providers.find(each.name).timeout_s
        assert each.timeout_ms == (4000 if own is None else own * 1000)


def test_the_whole_search_may_take_as_long_as_the_slowest_in_the_chain_needs(home: Home) -> None:
    content = {"providers": [{"name": "brave", "timeout_ms": 30_000}]}
    assert home.load(content, **KEYED).total_budget_ms == 40_000
    assert home.load(content | {"defaults": {"total_budget_ms": 150}}, **KEYED).total_budget_ms == 150
    assert home.load(content).total_budget_ms == 30_000, "who is not configured does not count"


def test_retry_times_and_options_count(home: Home) -> None:
    tuned = brave(home, quota_retry_s=0)
    assert tuned.quota_retry_s == 0
    options = provider(
        home.load({"providers": [{"name": "tavily", "options": {"depth": "advanced"}}]}), "tavily"
    ).options
    assert options == {"depth": "advanced", "topic": "general"}


@pytest.mark.parametrize("written", ["", " ", "two\nlines", "\ud800"])
def test_a_text_option_is_one_line_with_something_in_it(home: Home, written: str) -> None:
    config = home.load({"providers": [{"name": "searxng", "options": {"engines": written}}]})
    assert config.errors == ("providers[searxng].options.engines: must be one line of text",)


@pytest.mark.parametrize("name", providers.names())
def test_every_option_of_every_vendor_is_held_to_its_kind(home: Home, name: str) -> None:
    for option, about in providers.find(name).options.items():
        wrong: dict[type, object] = {str: 5, bool: "true", int: True}
        config = home.load({"providers": [{"name": name, "options": {option: wrong[about.kind]}}]})
        (complaint,) = config.errors
        assert complaint.startswith(f"providers[{name}].options.{option}: must be ")


def test_a_base_url_may_be_set_for_everybody(home: Home) -> None:
    for name in providers.names():
        needed = {option: "set" for option, each in providers.find(name).options.items() if each.required}
        entry = {"name": name, "base_url": "relay.example:8443/v1/?x=y", "options": needed}
        config = home.load({"providers": [entry]}, **KEYED)
        found = provider(config, name)
        if providers.find(name).keys_are_addresses:
            continue
        assert (found.base_url, config.errors) == ("http://relay.example:8443/v1/", ())
        assert config.warnings == (
            f"providers[{name}].base_url: what follows the '?' or '#' of the address is left out",
        )


@pytest.mark.parametrize(
    "address", ["", "ftp://x", "https://", "http:/x", "http://a b", "http://x:99999", "http://[::1", "\ud800"]
)
def test_a_base_url_that_is_no_address_is_a_mistake(home: Home, address: str) -> None:
    config = home.load({"providers": [{"name": "brave", "base_url": address}]})
    assert config.errors == (
        "providers[brave].base_url: must be an address such as http://localhost:8080: http or https, and a host",
    )


def test_where_keys_are_addresses_base_url_stands_for_them(home: Home) -> None:
    entry = {"providers": [{"name": "searxng", "base_url": "one.example, https://two.example"}]}
    assert provider(home.load(entry), "searxng").keys == ("http://one.example", "https://two.example")
    both = home.load(entry | {"credentials": {"SEARXNG_URL": "three.example"}})
    assert provider(both, "searxng").keys == ("http://one.example", "https://two.example")
    assert both.warnings == ("credentials.SEARXNG_URL: is not used: providers[searxng].base_url is set too",)
    outside = home.load(entry, SEARXNG_URL="four.example")
    assert provider(outside, "searxng").keys == ("http://four.example",)
    assert outside.warnings == ("providers[searxng].base_url: is not used: SEARXNG_URL is set too",)


def test_of_two_relays_the_one_in_the_environment_counts(home: Home) -> None:
    entry = {"providers": [{"name": "grok", "base_url": "https://file.example"}], "credentials": {"GROK_API_KEY": "k"}}
    outside = home.load(entry, GROK_API_URL="https://outside.example")
    grok = provider(outside, "grok")
    assert (grok.base_url, grok.address) == (None, "https://outside.example")
    assert outside.warnings == ("providers[grok].base_url: is not used: GROK_API_URL is set too",)
    entry["credentials"] = {"GROK_API_KEY": "k", "GROK_API_URL": "https://credentials.example"}
    inside = home.load(entry)
    grok = provider(inside, "grok")
    assert (grok.base_url, grok.address) == ("https://file.example", None)
    assert inside.warnings == ("credentials.GROK_API_URL: is not used: providers[grok].base_url is set too",)


# ---------------------------------------------------------------------------------------------------------------------
# the way out


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"])
def test_either_proxy_variable_serves_every_call(variable: str) -> None:
    config = load(KEYED | {variable: "proxy.example:3128"})
    assert config.network.proxy == "http://proxy.example:3128"
    assert {each.proxy for each in config.providers} == {"http://proxy.example:3128"}
    assert config.origins["network.proxy"] == f"env {variable}"


def test_of_two_proxy_variables_the_one_for_https_counts() -> None:
    config = load({"HTTP_PROXY": "http://one.example", "HTTPS_PROXY": "http://two.example"})
    assert config.network.proxy == "http://two.example"
    assert show(config)["providers"]["brave"]["proxy"] == {"value": "http://two.example", "from": "env HTTPS_PROXY"}


def test_a_providers_own_proxy_beats_the_networks(home: Home) -> None:
    config = home.load(
        {"providers": [{"name": "brave", "proxy": "https://own.example"}]},
        HTTPS_PROXY="http://all.example",
        NO_PROXY="*",
    )
    assert provider(config, "brave").proxy == "https://own.example"
    assert provider(config, "exa").proxy is None


@pytest.mark.parametrize(
    "written", ["socks5://h:1", "SOCKS5h://u:canary@h:1", "ftp://canary@h", "http://", "http://canary@"]
)
def test_a_proxy_that_cannot_be_used_is_a_mistake_and_never_a_way_around_it(home: Home, written: str) -> None:
    config = home.load({"providers": [{"name": "brave", "proxy": written}]}, HTTPS_PROXY=written)
    assert [error.partition(":")[0] for error in config.errors] == ["HTTPS_PROXY", "providers[brave].proxy"]
    assert not any("canary" in error for error in config.errors)


@pytest.mark.parametrize(
    ("address", "no_proxy", "is_direct"),
    [
        ("http://localhost:8080", None, True),
        ("http://127.0.0.1", None, True),
        ("http://[::1]:8080", None, True),
        ("http://10.0.0.7", None, False),
        ("http://localhost", "corp.example", False),
        ("http://search.corp.example", "corp.example", True),
        ("http://corp.example", ".corp.example", True),
        ("http://a.corp.example", "*.corp.example", True),
        ("http://notcorp.example", "corp.example", False),
        ("http://CORP.example.", "Corp.Example", True),
        ("http://anything.example", "*", True),
        ("http://h.example:8080", "h.example:8080", True),
        ("http://h.example", "h.example:8080", False),
        ("https://h.example", "h.example:443", True),
        ("http://192.168.3.4", "10.0.0.0/8, 192.168.0.0/16", True),
        ("http://192.168.3.4", "192.168.3.4", True),
        ("http://[fd00::5]", "fd00::/8", True),
        ("http://192.example", "192.0.0.0/8", False),
        ("http://h.example", "a b,h.example", True),
    ],
)
def test_no_proxy_is_read_as_is_the_custom(address: str, no_proxy: str | None, is_direct: bool) -> None:
    environ = {"SEARXNG_URL": address, "HTTPS_PROXY": "http://proxy.example"}
    config = load(environ | ({} if no_proxy is None else {"NO_PROXY": no_proxy}))
    assert provider(config, "searxng").proxy == (None if is_direct else "http://proxy.example")


def test_each_of_several_addresses_has_its_own_way_out() -> None:
    config = load({"SEARXNG_URL": "http://localhost:8080,https://far.example", "HTTP_PROXY": "http://proxy.example"})
    found = provider(config, "searxng")
    assert found.proxies == {"http://localhost:8080": None, "https://far.example": "http://proxy.example"}
    assert [found.proxy_for(key) for key in found.keys] == [None, "http://proxy.example"]
    assert provider(config, "brave").proxy_for("k") == "http://proxy.example"


def test_an_option_that_every_search_needs_is_missed_where_the_provider_is_listed(home: Home) -> None:
    listed: dict[str, Any] = {"name": "google_pse"}
    warning = "providers[google_pse].options.cx: is not set: the search engine's id, which every search needs"
    assert home.load(GOOGLE_PSE_API_KEY="k" * 20).warnings == ()
    assert home.load({"providers": [listed]}).warnings == ()
    assert home.load({"providers": [listed]}, GOOGLE_PSE_API_KEY="k" * 20).warnings == (warning,)
    named = home.load({"providers": [listed | {"options": {"cx": "017"}}]}, GOOGLE_PSE_API_KEY="k" * 20)
    assert (named.warnings, named.errors) == ((), ())


@pytest.mark.parametrize(
    ("option", "value"), [("language", "evil.example/"), ("language", ".."), ("contact", "ü@x"), ("contact", "a (b)")]
)
def test_an_option_that_no_search_could_use_is_a_mistake(home: Home, option: str, value: str) -> None:
    (complaint,) = home.load({"providers": [{"name": "wikipedia", "options": {option: value}}]}).errors
    assert complaint.startswith(f"providers[wikipedia].options.{option}: must be as said of it: ")
    assert value not in complaint
    assert home.load({"providers": [{"name": "wikipedia", "options": {"language": "zh-Yue"}}]}).errors == ()
