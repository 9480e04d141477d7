-- The tables of a new store, before the migrations of file.py.

CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    facts TEXT NOT NULL
) STRICT;

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    suite TEXT NOT NULL,
    truth TEXT NOT NULL,
    command TEXT NOT NULL,
    started REAL NOT NULL,
    finished REAL,
    planned INTEGER NOT NULL,
    exit_code INTEGER,
    machine INTEGER NOT NULL REFERENCES machine (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE spec (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    reference TEXT NOT NULL,
    plugin TEXT NOT NULL,
    params TEXT NOT NULL,
    worlds TEXT NOT NULL,
    version INTEGER NOT NULL,
    origin TEXT NOT NULL
) STRICT;

CREATE TABLE label (
    run TEXT NOT NULL REFERENCES run (id),
    spec INTEGER NOT NULL REFERENCES spec (id),
    label TEXT NOT NULL,
    PRIMARY KEY (run, spec)
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL,
    run TEXT NOT NULL REFERENCES run (id), finished REAL NOT NULL,
    timeout REAL, memory INTEGER,
    environment INTEGER NOT NULL REFERENCES spec (id),
    estimator INTEGER NOT NULL REFERENCES spec (id),
    replicate INTEGER NOT NULL, seed INTEGER NOT NULL,
    device TEXT NOT NULL, threads INTEGER NOT NULL,
    code_digest TEXT NOT NULL, status TEXT NOT NULL,
    estimate REAL, standard_error REAL, fallback REAL,
    truth_expected REAL, truth_expected_se REAL, truth_empirical REAL,
    logging_average REAL,
    unsupported_mass REAL, observed_unsupported_mass REAL,
    n_logged_actions INTEGER, n_target_actions INTEGER,
    ess_fraction REAL, max_weight_share REAL,
    fit_seconds REAL, fit_cpu_seconds REAL, estimate_seconds REAL, shared_seconds REAL,
    peak_rss_bytes INTEGER, gpu_peak_bytes INTEGER, exclusive INTEGER NOT NULL,
    diagnostics TEXT NOT NULL, access TEXT NOT NULL,
    origin TEXT NOT NULL, environment_origin TEXT NOT NULL,
    error_type TEXT, error_message TEXT, traceback TEXT, output_tail TEXT
) STRICT;

CREATE INDEX record_key ON record (key, finished);

CREATE TABLE run_record (
    run TEXT NOT NULL REFERENCES run (id),
    key TEXT NOT NULL,
    record INTEGER NOT NULL REFERENCES record (id),
    PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;
