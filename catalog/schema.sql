-- Tables of the catalog; what is said per document are views over the artifacts' Parquet.
CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY,
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
    dropped MAP(VARCHAR, BIGINT),  -- reason -> documents
    tokens BIGINT,
    packed_rows BIGINT,
    padding DOUBLE,          -- share of row slots not filled
    cpu_s DOUBLE,
    wall_s DOUBLE,
    peak_rss_bytes BIGINT,
    dataset VARCHAR,         -- folder of the packed shards
    recipe VARCHAR           -- JSON, every default filled in
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
    fingerprint VARCHAR PRIMARY KEY,
    stage VARCHAR,
    bytes BIGINT,
    created TIMESTAMP,       -- UTC
    parents MAP(VARCHAR, VARCHAR),  -- stage -> fingerprint
    files BIGINT,
    rows BIGINT,
    path VARCHAR             -- folder
);
