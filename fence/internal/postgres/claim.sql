-- $1 resource, $2 token. A row that was written says that the claim stands; none that the mark is higher.
--
-- The row stays locked until the transaction ends, so a claim and what follows it in the transaction are one step: who
-- claims the same resource meanwhile waits, and then sees what this transaction has committed. An equal token writes
-- as well, for the lock's sake.
INSERT INTO locker_fence AS mark (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE mark.token <= excluded.token
