-- What locker keeps in a database: the sequence of fencing tokens, a table with their epoch, and one with what holders say
-- of themselves. The locks themselves are advisory locks, in the server's memory. It is safe to execute this script again.

CREATE SCHEMA IF NOT EXISTS "locker";

-- Values from 1 to 2^48 - 1, in their order: without a cache, in which each connection would keep some for later.
CREATE SEQUENCE IF NOT EXISTS "locker".locker_token AS bigint MINVALUE 1 MAXVALUE 281474976710655 CACHE 1 NO CYCLE;

-- One row: the high bits of tokens, where the sequence was when they were last raised, and a value that the sequence had
-- reached. To raise them by hand, with all Lockers stopped, above N, the largest that there was:
-- UPDATE locker_epoch SET epoch = N + 1, reached = 0.
CREATE TABLE IF NOT EXISTS "locker".locker_epoch (
	one      boolean PRIMARY KEY DEFAULT true CHECK (one),
	epoch    bigint NOT NULL DEFAULT 0,
	system   bigint NOT NULL DEFAULT 0,
	database bigint NOT NULL DEFAULT 0,
	sequence bigint NOT NULL DEFAULT 0,
	timeline bigint NOT NULL DEFAULT 0,
	reached  bigint NOT NULL DEFAULT 0,
	written  bigint NOT NULL DEFAULT 0, -- the transaction that wrote the row: it isn't in a row that a restore brought back
	protocol int    NOT NULL DEFAULT 1
) USING heap;

-- The protocol is 1 where versions of locker may be in use that leave a lock in shared mode on a connection, and 2 where none
-- is. A schema that is older than the column begins with 1. It is raised by hand, with all Lockers stopped, as the epoch is:
-- UPDATE locker_epoch SET protocol = 2.
ALTER TABLE "locker".locker_epoch ADD COLUMN IF NOT EXISTS protocol int NOT NULL DEFAULT 1;
INSERT INTO "locker".locker_epoch (protocol) VALUES (2) ON CONFLICT DO NOTHING;

-- For people who look, and who take locks away: names of locks, and who has them or waits for them. No lease rests on it:
-- Lockers work without this table, and without permissions on it, and show less. There is a row for each lease and each
-- wait that is older than about a third of its TTL. presence is the number of the connection's own lock in pg_locks.
CREATE UNLOGGED TABLE IF NOT EXISTS "locker".locker_lease (
	key      bigint NOT NULL,
	presence bigint NOT NULL,
	name     text NOT NULL,
	token    bigint,      -- not of one that waits
	since    timestamptz, -- when the lock was granted
	ttl      interval NOT NULL,
	label    text NOT NULL,
	written  timestamptz NOT NULL DEFAULT now(),
	breach   text,        -- who takes the lease away, and why
	PRIMARY KEY (key, presence),
	UNIQUE (presence, key),         -- for their indexes: a connection's rows go with it,
	UNIQUE (written, key, presence) -- and old rows go after a day
) USING heap;

-- A table that is older than this column doesn't have it.
ALTER TABLE "locker".locker_lease ADD COLUMN IF NOT EXISTS breach text;

-- What Lockers look for with their renewals.
CREATE INDEX IF NOT EXISTS locker_lease_broken ON "locker".locker_lease (presence) WHERE breach IS NOT NULL;

-- Roles that use locks but don't own these objects need:
--   GRANT USAGE ON SCHEMA "locker" TO …;
--   GRANT USAGE, UPDATE ON SEQUENCE "locker".locker_token TO …;
--   GRANT SELECT, UPDATE ON "locker".locker_epoch TO …;
-- and, so that others see what they say of themselves:
--   GRANT SELECT, INSERT, UPDATE, DELETE ON "locker".locker_lease TO …;
