-- Which migrations this database has; run before every other file, under the migration lock.
CREATE TABLE IF NOT EXISTS schema_migrations (
    name text COLLATE "C" NOT NULL,
    phase text NOT NULL CHECK (phase IN ('expand', 'contract')),
    applied_at timestamptz NOT NULL,
    checksum text NOT NULL,
    PRIMARY KEY (name, phase)
);
