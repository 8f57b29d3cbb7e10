-- Shares of the mixture domains: documents kept, tokens (copies counted), share of all tokens
SELECT domain, count(*) AS kept, coalesce(sum(n_tokens * copies), 0) AS tokens,
    round(coalesce(sum(n_tokens * copies) / sum(sum(n_tokens * copies)) OVER (), 0), 4) AS share
FROM documents JOIN selection USING (doc_uid) LEFT JOIN tokens USING (doc_uid)
WHERE kept
GROUP BY domain
ORDER BY tokens DESC, domain
