"""Pieces of SQL that several figures use."""

SHOWN_CHARS = 700
"""Characters of a text that a sample shows."""


def beginning(column: str, name: str = "text") -> str:
    """Return SQL of the beginning of a text, with a note of what is left out."""
    return (
        f"CASE WHEN length({column}) > {SHOWN_CHARS} THEN left({column}, {SHOWN_CHARS}) || "
        f"' [... ' || (length({column}) - {SHOWN_CHARS}) || ' more characters]' "
        f"ELSE {column} END AS {name}"
    )


OCTAVE = ("CAST(1 AS BIGINT) << bin", "(CAST(2 AS BIGINT) << bin) - 1")
"""SQL of the ends of a bin of a logarithmic scale of whole numbers, each twice as wide as the last."""


def octave(number: str) -> str:
    """Return SQL of the bin of a whole number from 1 on."""
    return f"CAST(floor(log2({number})) AS INTEGER)"


def histogram(counted: str, ends: tuple[str, str], series: tuple[str, ...]) -> str:
    """Return SQL of a histogram, empty bins included.

    Args:
        counted: SELECT of ``bin`` and the series, grouped by bin.
        ends: SQL over ``bin``: where it begins and ends.
        series: columns of ``counted``.
    """
    columns = ", ".join(f'coalesce("{name}", 0) AS "{name}"' for name in series)
    return f"""
        WITH counted AS ({counted.strip()}),
        bins AS (SELECT unnest(range((SELECT min(bin) FROM counted),
            (SELECT max(bin) + 1 FROM counted))) AS bin)
        SELECT {ends[0]} AS "from", {ends[1]} AS "to", {columns}
        FROM bins LEFT JOIN counted USING (bin) ORDER BY bin LIMIT 100
    """
