-- What each source gave: documents, kept, characters, tokens in the packed data (copies counted)
SELECT source, count(*) AS documents, count(*) FILTER (kept) AS kept,
    sum(n_chars) AS chars, coalesce(sum(n_tokens * copies), 0) AS tokens
FROM documents JOIN selection USING (doc_uid) LEFT JOIN tokens USING (doc_uid)
GROUP BY source
ORDER BY documents DESC, source
