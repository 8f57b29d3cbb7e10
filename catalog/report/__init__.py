"""The report of a run: figures, each with its SQL, as JSON and as one HTML page."""
