-- Evaluation items found in documents: what stands in the document and what in the item
SELECT item_set, item_id, round(score, 3) AS score, d.source, d.id, start, "end", found, item
FROM contamination JOIN documents d USING (doc_uid)
ORDER BY score DESC, item_set, item_id, d.source, d.id, start
