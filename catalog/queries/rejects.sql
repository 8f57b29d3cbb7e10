-- Lines that could not be read, by source and reason, with the first of them
SELECT source, reason, count(*) AS lines, min(path || ':' || coalesce(line, 0)) AS first
FROM rejects
GROUP BY source, reason
ORDER BY lines DESC, source, reason
