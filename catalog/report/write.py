"""Writing a report to its files."""

import json
from pathlib import Path

from catalog.report.figure import Report
from catalog.report.page import to_html

HTML_FILE = "report.html"
JSON_FILE = "report.json"


def to_json_text(report: Report) -> str:
    """Return a report as one line of JSON."""
    return json.dumps(report.to_json(), ensure_ascii=False, allow_nan=False)


def write_report(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.json`` into a folder, each by rename.

    Args:
        report: what is written.
        folder: where; it is made if it is not there.

    Returns:
        The paths of the page and of the JSON.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    html = _replace(folder / HTML_FILE, to_html(report))
    return html, _replace(folder / JSON_FILE, to_json_text(report) + "\n")


def _replace(path: Path, text: str) -> Path:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        # What UTF-8 cannot hold (half a surrogate pair) is replaced, not a reason to fail.
        temporary.write_bytes(text.encode("utf-8", "replace"))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
