-- The 20 longest documents that were kept
SELECT source, id, doc_uid, n_chars, n_tokens, round(n_chars / nullif(n_tokens, 0), 2) AS chars_per_token
FROM documents JOIN selection USING (doc_uid) LEFT JOIN tokens USING (doc_uid)
WHERE kept
ORDER BY n_chars DESC, source, id
LIMIT 20
