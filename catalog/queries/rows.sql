-- How the packed rows are filled: rows, tokens, pieces, steps, and the spread of the cost of a row
SELECT count(*) AS rows, sum(n_tokens) AS tokens, min(n_tokens) AS least_tokens,
    max(n_tokens) AS most_tokens, sum(n_docs) AS pieces, round(avg(n_docs), 2) AS pieces_per_row,
    max(step) + 1 AS steps, round(min(cost), 3) AS least_cost, round(max(cost), 3) AS most_cost
FROM packed_rows LEFT JOIN plan USING (row_id)
