-- Stages of the run: rows, bytes, CPU and wall seconds, and whether they were cached
SELECT run_id, position, stage, cached, rows_in, rows_out, bytes, cpu_s, wall_s
FROM stages
WHERE run_id = (
    SELECT run_id FROM runs
    ORDER BY 'run_' || run_id = current_schema() DESC, available DESC, finished DESC, run_id DESC
    LIMIT 1
)
ORDER BY position
