"""Asks the played vendors with their own clients. Runs in the clients' virtual environment and imports nothing of ours.

`python asking.py RECORDINGS_FOLDER '{"tavily": "http://127.0.0.1:…", …}'`: one line a check, then a summary; exit 1
when one failed. The name of a recording goes out in place of the key, and the vendor plays it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import exa_py
import exa_py.errors
import firecrawl
import firecrawl.v2.utils.error_handler as firecrawl_errors
import openai
import requests
import tavily
import tavily.errors

LIMIT_S = 2.0

FAILURES = ("rate_limited", "quota_exhausted", "auth_failure", "timeout", "server_error", "request_error")

Found = Sequence[str]
"""Addresses, and where a client gives a text, the text as well."""


@dataclass(frozen=True)
class Client:
    """One vendor's client: how it is asked, and which of our outcomes each of its errors agrees with."""

    package: str
    ask: Callable[[str, str, Mapping[str, Any]], Found]
    agrees: Mapping[type[Exception], Sequence[str]]
    sentence: Callable[[Exception], str]
    """All that an error tells of the vendor's words."""
    differs: Mapping[str, str]
    """Recordings that mean less to the client than to us, and why."""


# ---------------------------------------------------------------------------------------------------------------------
# asking


def ask_tavily(url: str, name: str, case: Mapping[str, Any]) -> Found:
    keyless = name.startswith("keyless")
    client = tavily.TavilyClient(None if keyless else name, api_base_url=url, session_id=name if keyless else None)
    rows = client.search("wool", timeout=LIMIT_S)["results"]
    return [row["url"] for row in rows if isinstance(row, dict) and row.get("url")]


def ask_exa(url: str, name: str, case: Mapping[str, Any]) -> Found:
    return [row.url for row in exa_py.Exa(name, base_url=url, timeout=LIMIT_S).search("wool").results if row.url]


def ask_firecrawl(url: str, name: str, case: Mapping[str, Any]) -> Found:
    client = firecrawl.Firecrawl(api_key=f"fc-{name}", api_url=url, timeout=LIMIT_S, max_retries=1)
    found = client.search("wool")
    rows = [*(found.web or ()), *(found.news or ())]
    return [row.url if hasattr(row, "url") else row.metadata.source_url for row in rows]


def ask_grok(url: str, name: str, case: Mapping[str, Any]) -> Found:
    client = openai.OpenAI(api_key=name, base_url=f"{url}/v1", timeout=LIMIT_S, max_retries=0)
    is_stream = "event-stream" in str(case.get("headers")) or (case.get("body") or "").startswith("data:")
    messages: Any = [{"role": "user", "content": "wool"}]
    if case.get("route") == "chat":
        if is_stream:
            pieces = list(client.chat.completions.create(model="m", messages=messages, stream=True))
            return _spoken(pieces, [choice.delta for piece in pieces for choice in piece.choices or ()])
        whole = client.chat.completions.create(model="m", messages=messages)
        return _spoken([whole], [choice.message for choice in whole.choices])
    if is_stream:
        events: Any = list(client.responses.create(model="m", input=messages, stream=True))
        last = next((each.response for each in reversed(events) if hasattr(each, "response")), None)
        return [json.dumps([each.model_dump() for each in events])] if last and last.status == "completed" else []
    answer = client.responses.create(model="m", input=messages, tools=[{"type": "web_search"}])
    return [json.dumps(answer.model_dump())] if answer.output_text and answer.status == "completed" else []


def _spoken(replies: Sequence[Any], parts: Sequence[Any]) -> Found:
    """The text, and all that came with it; nothing when there is no text."""
    text = "".join(str(part.content or "") for part in parts)
    return [text + json.dumps([reply.model_dump() for reply in replies])] if text else []


# ---------------------------------------------------------------------------------------------------------------------
# what the clients' errors mean


BY_STATUS = "the client goes by the status, whoever sent the body"
ELSEWHERE = "the client looks for the vendor's sentence in another place only"
UNGROUNDED = "to the client a text without sources is an answer"
STRANGE = "some relays' own form of a stream, which OpenAI's client cannot read"


CLIENTS = {
    "tavily": Client(
        "tavily-python",
        ask_tavily,
        {
            tavily.errors.InvalidAPIKeyError: ("auth_failure",),
            tavily.errors.UsageLimitExceededError: ("rate_limited",),
            # 403, and since 0.8 also 432 and 433
            tavily.errors.ForbiddenError: ("auth_failure", "quota_exhausted", "request_error"),
            tavily.errors.BadRequestError: ("request_error",),
            tavily.errors.TimeoutError: ("timeout",),
            requests.JSONDecodeError: ("server_error",),
            requests.HTTPError: ("server_error", "timeout", "request_error"),
        },
        str,
        {
            "page_403_from_a_firewall": BY_STATUS,
            "rate_limited_429_detail_string": ELSEWHERE,
            "rate_limited_429_top_level_error": ELSEWHERE,
        },
    ),
    "exa": Client(
        "exa-py",
        ask_exa,
        {exa_py.errors.ExaTimeoutError: ("timeout",), ValueError: FAILURES},  # one class for all; the words tell
        str,
        {"ok_one_bad_row": "one row that is no object costs the client all of them"},
    ),
    "firecrawl": Client(
        "firecrawl-py",
        ask_firecrawl,
        {
            firecrawl_errors.UnauthorizedError: ("auth_failure",),
            firecrawl_errors.PaymentRequiredError: ("quota_exhausted",),
            firecrawl_errors.RateLimitError: ("rate_limited", "quota_exhausted"),  # the keyless daily cap is a 429
            firecrawl_errors.RequestTimeoutError: ("timeout",),
            firecrawl_errors.ProviderTermsRequiredError: ("auth_failure",),
            firecrawl_errors.WebsiteNotSupportedError: ("auth_failure", "request_error"),  # every other 403
            firecrawl_errors.BadRequestError: ("request_error",),
            firecrawl_errors.DNSResolutionError: ("request_error",),
            firecrawl_errors.TLSError: ("request_error",),
            firecrawl_errors.InternalServerError: ("server_error",),
            firecrawl_errors.FirecrawlError: ("server_error", "timeout", "request_error"),  # by status alone
            requests.Timeout: ("timeout",),
            requests.ConnectionError: ("network",),
            requests.JSONDecodeError: ("server_error",),
        },
        str,
        {
            "page_403": BY_STATUS,
            "plain_403": BY_STATUS,
            "scrape_timeout_500": "the client knows two of the scrape codes, and not this one",
            "ok_v1_list": "the shape of the first version, which this client asks nobody for",
            "no_results_v2_null_web": "a null list breaks the client: the vendor hardly sends one",
            "data_of_another_kind": "the client looks into whatever it gets",
        },
    ),
    "grok": Client(
        "openai",
        ask_grok,
        {
            openai.AuthenticationError: ("auth_failure",),
            openai.RateLimitError: ("rate_limited", "quota_exhausted"),
            openai.PermissionDeniedError: ("auth_failure", "quota_exhausted"),
            openai.NotFoundError: ("request_error",),
            openai.UnprocessableEntityError: ("request_error",),
            openai.BadRequestError: ("request_error", "auth_failure"),  # xAI says 400 to a wrong key
            openai.InternalServerError: ("server_error", "timeout"),
            openai.APITimeoutError: ("timeout",),
            openai.APIConnectionError: ("network",),
            openai.APIStatusError: ("request_error",),
            openai.APIError: FAILURES,  # an error event inside a stream
        },
        lambda error: f"{error} {getattr(error, 'body', '')}",
        {
            "page_403": BY_STATUS,
            "acl_403_text": BY_STATUS,
            "relay_page_403": BY_STATUS,
            "from_memory": UNGROUNDED,
            "refusal": UNGROUNDED,
            "relay_stream_cut_off": "the client hands out the half that came",
            "relay_stream_event_done": STRANGE,
            "relay_stream_no_blank_lines": STRANGE,
            "relay_whole_message_in_stream": STRANGE,
        },
    ),
}
CLIENTS["grok_relay"] = CLIENTS["grok"]

# ---------------------------------------------------------------------------------------------------------------------
# judging


def judged(client: Client, url: str, case: Mapping[str, Any]) -> tuple[str, str]:
    """What became of one recording, and what is wrong with it ("": nothing)."""
    expect = case["expect"]
    try:
        found = client.ask(url, case["name"], case)
    except Exception as error:  # whatever the client makes of it is what we want to know  # noqa: BLE001
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        return said, _wrong_error(client, case, error)
    said = f"{len(found)} found"
    if expect["outcome"] == "no_results":
        return said, "" if not found else "we find nothing in it"
    if expect["outcome"] != "ok":
        # under 200 a client may find nothing, and say nothing, where we say what is wrong
        return said, "" if case["status"] == 200 and not found else f"to us it is {expect['outcome']}"
    if not found:
        return said, "to us it is ok"
    urls = [row["url"] for row in expect["results"] or () if "url" in row]
    missing = [each for each in urls if not any(each in one for one in found)]
    return said, f"the client has no {', '.join(missing)}" if missing else ""


def _wrong_error(client: Client, case: Mapping[str, Any], error: Exception) -> str:
    outcome = case["expect"]["outcome"]
    if case["status"] == 200 and outcome in FAILURES:
        return ""  # no error of a vendor's: the client fails over what it cannot read, in whatever way
    agrees = next((outcomes for kind, outcomes in client.agrees.items() if isinstance(error, kind)), None)
    if agrees is None:
        return f"no error of this client's own; to us it is {outcome}"
    if outcome not in agrees:
        return f"to us it is {outcome}"
    sentence = _sentence(case["body"])
    if case["confidence"] != "inferred" and sentence not in client.sentence(error):
        return f"the client does not find the vendor's sentence {sentence!r}"
    waits = getattr(error, "retry_after_seconds", None)
    if waits is not None and waits != case["expect"]["retry_after_s"]:
        return f"the client would wait {waits} s"
    return ""


def _sentence(body: str | None) -> str:
    """The sentence of an error body in one of the usual envelopes; "" when there is none."""
    try:
        told: Any = json.loads(body or "null")
    except ValueError:
        return ""
    for name in ("detail", "error", "message"):
        while isinstance(told, dict) and name in told:
            told = told[name]
    return told if isinstance(told, str) else ""


def main(folder: str, urls: Mapping[str, str]) -> int:
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for vendor, url in urls.items():
        client = CLIENTS[vendor]
        print(f"{vendor}: {client.package} {version(client.package)}")
        recordings = Path(folder, f"{vendor}.json")
        cases = json.loads(recordings.read_text(encoding="utf-8")) if recordings.exists() else []
        for case in (*_successes(vendor), *cases):
            name = case["name"]
            if (skipped := _not_run(case)) is not None:
                counts["not run"] += 1
                print(f"  not run  {name}: {skipped}")
                continue
            said, wrong = judged(client, url, case)
            verdict = "ok"
            if name in client.differs:
                verdict = "differs" if wrong else "FAIL"
                wrong = client.differs[name] if wrong else "no longer differs"
            elif wrong:
                verdict = "FAIL"
            counts[verdict] += 1
            print(f"  {verdict:7}  {name}: {said}" + (f" ({wrong})" if wrong else ""))
    print(", ".join(f"{counts[each]} {each}" for each in ("ok", "differs", "FAIL", "not run")))
    return 1 if counts["FAIL"] else 0


def _successes(vendor: str) -> list[dict[str, Any]]:
    """What the vendor plays when nobody scripts it."""
    rows = [{"url": f"https://{vendor.replace('_', '-')}.example/"}]
    good: dict[str, Any] = {"name": "success", "status": 200, "expect": {"outcome": "ok", "results": rows}}
    if vendor != "grok_relay":
        return [good]
    streamed = {"name": "success_streamed", "headers": {"content-type": "text/event-stream"}}
    return [good | {"route": "chat"}, good | {"route": "chat"} | streamed]


def _not_run(case: Mapping[str, Any]) -> str | None:
    status = case["status"]
    if status is None and case["transport"] not in ("read_timeout", "connection_reset"):
        return "nobody can play it"
    if status is not None and 300 <= status < 400:
        return "the client would follow it out of this machine"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))
