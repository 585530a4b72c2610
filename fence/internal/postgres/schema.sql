-- The marks of fenced resources: the highest token that each resource has seen. The table is in the
-- same database as the data that it protects, so that a claim and a write are one transaction, and a
-- restored backup contains both. Never delete a row while a holder with a smaller token may be alive:
-- the mark would be lost. No upgrade of the system's libraries changes the order of this collation. If
-- the order of an index changed, a mark would not be found, and a second one would be written.
CREATE TABLE IF NOT EXISTS {{table}} (
    resource text COLLATE pg_catalog."C" PRIMARY KEY,
    token    bigint NOT NULL CHECK (token > 0)
);
