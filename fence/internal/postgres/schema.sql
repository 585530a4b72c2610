-- The marks of fenced resources: the highest token that each has seen. Kept with the data that it guards, in the same
-- database, so that a claim and a write are one transaction and a restored backup has both. A row that is deleted is a mark
-- that is forgotten: never do that while a holder with a smaller token may be alive. The collation is one that no upgrade of the
-- system's libraries changes: in an index whose order has changed a mark is not found, and a second one is written.
CREATE TABLE IF NOT EXISTS {{table}} (
    resource text COLLATE pg_catalog."C" PRIMARY KEY,
    token    bigint NOT NULL CHECK (token > 0)
);
