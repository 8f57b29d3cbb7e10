-- All runs, the newest first
SELECT run_id, name, status, started, round(wall_s, 1) AS wall_s, ingested, kept, tokens, packed_rows,
    round(padding, 5) AS padding, available
FROM runs
ORDER BY finished DESC, run_id DESC
