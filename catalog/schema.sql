-- Tables of the catalog; what is said per document are views over the artifacts' Parquet.
-- DuckDB 0.10 and 1.0 cannot open a file with a key, nor read one with an empty list or map: so
-- there are no keys, and JSON text where a value has parts.
CREATE TABLE runs (
    run_id VARCHAR,
    name VARCHAR,
    started TIMESTAMP,       -- UTC
    finished TIMESTAMP,      -- UTC
    status VARCHAR,          -- ok or failed
    fingerprint VARCHAR,
    available BOOLEAN,       -- whether all its artifacts are there, and the run has views
    lines BIGINT,
    rejected BIGINT,
    ingested BIGINT,
    kept BIGINT,
    dropped VARCHAR,         -- JSON: reason -> documents
    tokens BIGINT,
    packed_rows BIGINT,
    padding DOUBLE,          -- share of row slots not filled
    cpu_s DOUBLE,
    wall_s DOUBLE,
    peak_rss_bytes BIGINT,
    dataset VARCHAR,         -- folder of the packed shards
    recipe VARCHAR,          -- JSON, every default filled in
    warnings VARCHAR         -- JSON: what the run warned of
);
CREATE TABLE stages (
    run_id VARCHAR,
    position INTEGER,        -- place in the run, from 0
    stage VARCHAR,
    fingerprint VARCHAR,
    cached BOOLEAN,
    rows_in BIGINT,
    rows_out BIGINT,
    bytes BIGINT,
    cpu_s DOUBLE,
    wall_s DOUBLE,
    path VARCHAR             -- folder of the artifact
);
CREATE TABLE artifacts (
    fingerprint VARCHAR,
    stage VARCHAR,
    bytes BIGINT,
    created TIMESTAMP,       -- UTC
    parents VARCHAR,         -- JSON: stage -> fingerprint
    files BIGINT,
    rows BIGINT,
    path VARCHAR             -- folder
);
CREATE TABLE against (
    run_id VARCHAR,
    ingest VARCHAR,          -- fingerprint of its ingest artifact: keeper_ingest of duplicates
    workdir VARCHAR,         -- work directory that was compared with
    earlier_run VARCHAR,     -- its newest good run at that time
    documents BIGINT         -- how many it had accepted
);
