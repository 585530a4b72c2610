-- $1 resource, $2 token. One row means that the claim is accepted; no row means that the mark is
-- higher. The row says whether the top-level transaction has written it: a row that was written in a
-- subtransaction has the number of the subtransaction.
--
-- The row stays locked until the transaction ends, so a claim and the following statements of the
-- transaction are one step: another claim of the same resource waits, and then sees what this
-- transaction has committed. An equal token writes the row as well, to get the row lock.
--
-- The setting ends with the transaction. It is made before the row is locked, because a stale claim
-- locks the row, too. If a commit didn't wait for the disk (synchronous_commit = off), a crash could
-- lose the commit, and the mark with it.
--
-- All names are qualified, so search_path has no effect.
INSERT INTO {{table}} AS mark (resource, token)
SELECT $1::pg_catalog.text, $2::bigint
WHERE pg_catalog.set_config('synchronous_commit', CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off'
		THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, true) IS NOT NULL{{limit}}
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE mark.token OPERATOR(pg_catalog.<=) excluded.token
RETURNING mark.xmin OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id()::pg_catalog.xid
