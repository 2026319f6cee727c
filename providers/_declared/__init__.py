"""A vendor that is a table: the class that is made of it, and the tables that this package brings.

A file `<name>.json` beside the vendors holds what an operator's entry with `generic_json` holds, and of the vendor what
no entry says: `priority` and `joins`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import httpx2

from providers._budgets import budget
from providers._declared import _paths, _tables, _templates
from providers._declared._tables import Table
from providers._http import HTTPProvider
from providers._reading import plain_text, result, retry_after, rows
from providers._sections import Findings, Members, Section, choice, whole
from providers._wire import Wire
from providers._words import UNBOUNDED, Limits, Outcome, Query, Result, Results, Said

LAST = 1000
"""The place of an operator's own providers in the built-in order, which none of them joins."""


class Declared(HTTPProvider):
    """A vendor whose requests and replies are told by a table."""

    table: ClassVar[Table]

    def request(self, query: Query, key: str) -> httpx2.Request:
        table, values = self.table, self._values(query, key)
        home = urlsplit(table.url)
        path = _templates.segments(home.path, values) or "/"
        url = self.endpoint(self.settings.base_url or f"{home.scheme}://{home.netloc}", path)
        if path.endswith("/") and not url.endswith("/"):
            url += "/"  # to many servers it matters
        headers = _templates.pairs(table.headers, values)
        params = httpx2.QueryParams(tuple(_templates.pairs(table.params, values)))
        body = None if table.body is None else _templates.fill(table.body, values)
        sent = {} if body is _templates.ABSENT else body
        request = httpx2.Request(table.method, url, headers=headers, params=params or None, json=sent)
        request.headers.setdefault("Accept", "application/json")
        return request

    def _values(self, query: Query, key: str) -> dict[str, object]:
        include, exclude = self._held(query)
        values: dict[str, object] = {
            "query": query.text,
            "max_results": query.max_results,
            "key": key or None,
            "include_domains": include or None,
            "exclude_domains": exclude or None,
        }
        if query.freshness:
            values["freshness"] = self.table.freshness.get(query.freshness)
            since = self.since(query.freshness)
            values |= {slot: _templates.date(slot, since) for slot in self.table.slots if slot.startswith("after:")}
        return values | {f"options.{name}": self.option(name) for name in self.options}

    def leaves_out(self, query: Query) -> bool:
        is_asked = self.table.operators or "exclude_domains" in self.table.slots
        return is_asked and (self.table.operators or self._held(query)[1] == query.exclude_domains)

    def _held(self, query: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The hosts that the vendor's own lists are given: only a whole list of those to search keeps what it says."""
        most = self.domains or None
        include, exclude = query.include_domains, query.exclude_domains[:most]
        if most is not None and len(include) > most:
            include = ()
        return include, () if include and self.table.domain_lists == "one" else exclude

    def unmet(self, query: Query) -> Iterator[str]:
        asked = (query.include_domains, query.exclude_domains)
        if self.domains and not self.table.operators and self._held(query) != asked:
            yield f"{self.name}: domains beyond its own filter were left to the gateway"

    def results(self, body: object) -> Results | None:
        items: list[object] = []
        is_told = is_odd = False
        for path in self.table.rows:
            for each in _paths.follow(body, path):
                if isinstance(each, list):
                    items += each
                elif path[-1:] == (_paths.EACH,):
                    items.append(each)
                else:
                    is_odd = True
                    continue
                is_told = True
        if not items and (is_odd or not (is_told or self._is_envelope(body))):
            return None
        kept = rows(items, self._row)
        if kept is None:
            return None
        return Results(kept, plain_text(_paths.joined(body, self.table.answer)) if kept else "")

    def _is_envelope(self, body: object) -> bool:
        return any(isinstance(each, dict) for path in self.table.envelope for each in _paths.follow(body, path))

    def _row(self, row: dict[str, object]) -> Result | None:
        fields = self.table.fields
        snippet, content = (_paths.joined(row, fields[name]) for name in ("snippet", "content"))
        return result(
            _paths.joined(row, fields["title"]),
            _paths.first(row, fields["url"]),
            snippet=snippet,
            # a vendor that sends both may have found next to nothing on the page
            content=content if len(content) >= len(snippet) else "",
            published=_paths.first(row, fields["published"]),
        )

    def said(self, wire: Wire, body: object) -> Said:
        return Said(_paths.codes(body, self.table.codes), _paths.first(body, self.table.message))

    def rest(self, wire: Wire, body: object, outcome: Outcome) -> float | None:
        # vendors whose clients come from one well-known generator are read so by these, milliseconds first
        exact = retry_after(wire.headers.get("retry-after-ms"), wire.now)
        if exact is not None:
            return exact / 1000
        if (told := super().rest(wire, body, outcome)) is not None:
            return told
        places = (found for path in self.table.wait for found in _paths.follow(body, path))
        return next((told for each in places if (told := retry_after(each, wire.now)) is not None), None)

    def secrets(self, key: str) -> tuple[str, ...]:
        return (*super().secrets(key), *self.table.secrets)


def declare(name: str, table: Table, **facts: object) -> type[Declared]:
    """The vendor `name` that `table` tells of. `facts` are class attributes that no table holds."""
    return type(
        f"Declared({name})",
        (Declared,),
        {
            "name": name,
            "title": table.title,
            "priority": LAST,
            "home": table.url,
            "credential": table.credential,
            "joins": "if_listed",
            "limits": Limits(results=table.max_rows, query=table.max_query),
            "domains": table.domains,
            "operators": table.operators,
            "enforces_freshness": any(slot == "freshness" or slot.startswith("after:") for slot in table.slots),
            "options": table.options,
            "errors": table.errors,
            "table": table,
            **facts,
        },
    )


def shipped(folder: str) -> Iterator[type[Declared]]:
    """The vendors that are tables in `folder`. Raises ValueError for one with a mistake: it is one of ours."""
    for file in sorted(Path(folder).glob("[!_]*.json")):
        findings = Findings()
        content = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=Members.of)
        section = Section(file.stem, content, findings)
        timeout_ms = section.take("timeout_ms", whole(1), None)
        vendor = declare(
            file.stem,
            _tables.read(section.section("generic_json"), file.stem),
            priority=section.take("priority", whole(0), LAST),
            joins=section.take("joins", choice("built_in", "if_listed", "last_resort"), "if_listed"),
            budget=budget(section, UNBOUNDED),
            min_interval_ms=section.take("min_interval_ms", whole(0), 0),
            timeout_s=None if timeout_ms is None else timeout_ms / 1000,
        )
        section.close()
        if findings.complaints:
            raise ValueError("\n".join(findings.errors_at()))
        yield vendor
