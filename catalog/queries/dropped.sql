-- Documents dropped, by the stage and the reason
SELECT dropped_by AS stage, reason, count(*) AS documents, sum(n_chars) AS chars
FROM selection JOIN documents USING (doc_uid)
WHERE NOT kept
GROUP BY ALL
ORDER BY documents DESC, stage, reason
