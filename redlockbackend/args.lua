-- How each script is called: for many locks at once, each with an owner of its own. A server carries a script out as a
-- whole, so all of it happens at one moment; but nothing is undone when it fails in the middle. Whoever changes a script
-- keeps to this: what may fail is called with pcall, or comes before the first write.
--
-- KEYS[1]    memory   "RUN HISTORY DB SINCE MAX", see memory.lua
-- KEYS[1+i]  lock     of item i: "OWNER TOKEN", expires with the lease. TOKEN is 0 until the owner has raised the
--                     counter. Or "LOCKER turn": it is kept for one that waits. No key: the lock is free here
--
-- Beside a lock there are, made from its key as no server is part of a Cluster:
--
-- LOCK:token        the counter: the highest token that this server has agreed to
-- LOCK:waiters      sorted set of the channels of those who wait; the score is a ticket: first come, smallest
-- LOCK:tomb:OWNER   stops a late request of this owner
--
-- ARGV[1]  max      the longest TTL of all locks, in milliseconds
-- ARGV[2]  channel  on which the Locker hears that it is its turn; '' where it doesn't
-- ARGV[3]  db       the number of the database
-- and of each item:
--          owner    of the attempt that asks, a random id
--          token    that it proposes, or has got
--          ttl      of its lease, in milliseconds
--          ticket   when it began to wait; '' if it doesn't
--
-- The answer is a list with a text for each item; or a text alone, if this server must not take part now.

-- Who shares the client may have had this connection select another database. For it this changes nothing.
redis.call('SELECT', ARGV[3])

local ITEM = 4 -- arguments of an item

local function each(step)
  local answers = {}
  for i = 2, #KEYS do
    local a = 4 + (i - 2) * ITEM
    answers[i - 1] = step(KEYS[i], ARGV[a], tonumber(ARGV[a + 1]), ARGV[a + 2], ARGV[a + 3])
  end
  return answers
end

-- holder returns the owner of the lease that stands. What somebody else has written to the key, of whatever type, holds
-- the lock as well.
local function holder(lock)
  local held = redis.pcall('GET', lock)
  if not held then return nil end
  return type(held) == 'string' and string.match(held, '^%S+') or '?'
end
