-- $1 resource, $2 token. One row says that the claim holds; none that the mark is higher. The row says whether the claim is the
-- transaction's own: a row that was written in a subtransaction has the number of that.
--
-- The row stays locked until the transaction ends, so a claim and what follows it in the transaction are one step: who
-- claims the same resource meanwhile waits, and then sees what this transaction has committed. An equal token writes
-- as well, for the lock's sake.
--
-- What is set is the transaction's own and over with it, and comes before the lock: a claim that is stale locks the row too. A commit
-- that doesn't wait for the disk (synchronous_commit = off) could be lost in a crash, and the mark with it.
--
-- All names are qualified, so no search_path leads elsewhere.
INSERT INTO {{table}} AS mark (resource, token)
SELECT $1::pg_catalog.text, $2::bigint
WHERE pg_catalog.set_config('synchronous_commit', CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off'
		THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, true) IS NOT NULL{{limit}}
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE mark.token OPERATOR(pg_catalog.<=) excluded.token
RETURNING mark.xmin OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id()::pg_catalog.xid
