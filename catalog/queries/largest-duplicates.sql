-- The 20 largest groups of duplicates, with the document that was kept
SELECT kind, any_value(cluster_size) AS cluster_size, count(*) AS removed, k.source, k.id, keeper_uid, keeper_ingest
FROM duplicates LEFT JOIN documents k ON k.doc_uid = keeper_uid AND keeper_ingest IS NULL
GROUP BY kind, keeper_uid, keeper_ingest, k.source, k.id
ORDER BY removed DESC, keeper_uid, keeper_ingest
LIMIT 20
