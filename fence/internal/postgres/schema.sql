-- The marks of fenced resources: the highest token that each has seen. Kept beside the data that it guards, in the same
-- database, so that a claim and a write are one transaction and a restored backup has both.
CREATE TABLE IF NOT EXISTS locker_fence (
    resource text   PRIMARY KEY,
    token    bigint NOT NULL CHECK (token > 0)
);
