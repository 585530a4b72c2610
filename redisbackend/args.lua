-- How each script is called. A script is executed as a whole, so all of it happens at one moment.
-- But nothing is undone when it fails in the middle. So in each script, what may fail comes before
-- the first write.
--
-- In a Cluster the scripts whose names end with "_one" replace renew and release. Each gets one of
-- these keys, as KEYS[1], and the same arguments.
--
-- KEYS[1]  lock     "OWNER TOKEN" and the label, expires with the lease; no key: the lock is free. If an
--                   operator takes it away: "!OWNER TOKEN", the label, which may be empty, and the breach
-- KEYS[2]  token    the last token of the name; expires an hour after the last lease
-- KEYS[3]  queue    sorted set of the owners that wait; the score is a ticket: first come, smallest
-- KEYS[4]  waiters  hash: owner → "TTL REFRESHED STAMP CHANNEL" of a place in the queue, and the label
-- KEYS[5]  tomb     stops a late request of this owner; the breach, if an operator has taken its lease away
--
-- The label is what the acquisition says of itself, for people who look. It is a line of its own, and
-- may be missing. What else follows the first line, whoever has written it, changes nothing.
--
-- ARGV[1]  owner    of the acquisition that asks, a random id
-- ARGV[2]  ttl      of its lease, in milliseconds
-- ARGV[3]  stamp    when the client sent this request, by the client's clock. A grant returns the stamp of
--                   the refresh that it counts from. The scripts don't interpret it
-- ARGV[4]  channel  on which its Locker listens for grants; '' if it doesn't listen, and must not be queued
-- ARGV[5]  said     a line feed and the label; '' without a label
--                   (release doesn't use these three, and is called with others)
--
-- If the client is a caller's, a database follows as the last argument: see select.lua.
--
-- What a script answers: {GONE}, {HELD, pttl, listeners}, {QUEUED, pttl, listeners, rank},
-- {GRANTED, token}, or {BROKEN, breach}: the lease has the lock, and is marked. With {GONE, breach} it is
-- known why nothing exists. pttl: the milliseconds that the holder's lease has left if nobody renews it.
-- listeners: how many this server sees on the channel. The two most frequent answers are shorter,
-- because a table costs a script as much as a command does: a number alone means a table with that
-- number alone, and text alone is the token of a grant.
local GONE, HELD, QUEUED, GRANTED, BROKEN = 0, 1, 2, 3, 4

local minute, hour = 60000, 3600000
local owner, ttl, stamp, channel, said = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] or ''
