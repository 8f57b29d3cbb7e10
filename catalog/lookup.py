"""Finding one document, or what comes near it, in an open catalog."""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

import duckdb

from catalog.store import CatalogError, fetch, to_json_rows

SHOWN = 10
"""Other documents listed at most: those that lost to one, near ids, rejects."""

Row = dict[str, Any]

_LEAST_LIKENESS = 0.6
_ROUGH = 100


class Lookup:
    """Point queries about the documents of one run.

    Args:
        connection: an open catalog whose views show the run.
        run: id of the run; default: the newest one that ended well.

    Raises:
        CatalogError: no run ended well.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, run: str | None) -> None:
        self._connection = connection
        found = self.rows(
            "SELECT run_id, recipe FROM runs WHERE status = 'ok' AND available "
            "AND ($run IS NULL OR run_id = $run) ORDER BY finished DESC, run_id DESC LIMIT 1",
            run=run,
        )
        if not found:
            raise CatalogError("the catalog holds no run that ended well; drystone run RECIPE")
        self.run_id: str = found[0]["run_id"]
        self._recipe: Any = json.loads(found[0]["recipe"])
        stages = "SELECT stage FROM stages WHERE run_id = $run ORDER BY position"
        self.stages: list[str] = [row["stage"] for row in self.rows(stages, run=self.run_id)]

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Return the rows of a statement as plain JSON values."""
        return to_json_rows(fetch(self._connection, sql, parameters))

    def setting(self, key: str) -> Any:
        """Return a value of the run's recipe by dotted key, None where it has none."""
        value = self._recipe
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def documents(self, document: str | int, source: str | None = None) -> list[Row]:
        """Return the documents of an id, of any source or of one; else the one of a doc_uid."""
        if isinstance(document, str):
            found = self.rows(
                "SELECT * FROM documents WHERE id = $id AND coalesce(source = $source, true) "
                "ORDER BY source, doc_uid",
                id=document,
                source=source,
            )
            if found or not re.fullmatch(r"[0-9]{1,19}", document):
                return found
        uid = int(document)
        if not 0 <= uid < 1 << 63:
            return []
        return self.rows("SELECT * FROM documents WHERE doc_uid = $uid", uid=uid)

    def near(self, asked: str, source: str | None = None) -> list[Row]:
        """Return the documents whose ids are most like a text, the nearest first."""
        rough = self.rows(
            "SELECT doc_uid, id, source FROM documents WHERE coalesce(source = $source, true) "
            "ORDER BY contains(lower(id), lower($asked)) DESC, "
            "jaro_winkler_similarity(lower(id), lower($asked)) DESC, id, source "
            f"LIMIT {_ROUGH}",
            asked=asked,
            source=source,
        )
        scored = [(-_likeness(asked, row["id"]), row["id"], row["source"], row) for row in rough]
        close = sorted(entry for entry in scored if -entry[0] >= _LEAST_LIKENESS)
        return [row for *_, row in close[:SHOWN]]

    def rejects(self, asked: str) -> list[Row]:
        """Return rejected lines of the file that an id ``path#row`` names, the nearest first."""
        path, _, row = asked.rpartition("#")
        path = path or asked
        return self.rows(
            "SELECT * FROM rejects WHERE path = $asked OR path = $path OR ends_with(path, $tail) "
            f"ORDER BY abs(coalesce(line, 0) - $number), path, line LIMIT {SHOWN}",
            asked=asked,
            path=path,
            tail=f"/{path}",
            number=int(row) if re.fullmatch(r"[0-9]{1,18}", row) else 0,
        )


def _likeness(asked: str, found: str) -> float:
    """Return how alike two ids are, 0 to 1; an id that contains the text is alike."""
    a, b = asked.lower(), found.lower()
    ratio = difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()
    return max(ratio, 0.7) if len(a) >= 3 and a in b else ratio
