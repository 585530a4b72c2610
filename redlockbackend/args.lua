-- How each script is called: for many locks at once, each with its own owner. A server executes a
-- script as a whole, so all of it happens at one moment. But nothing is undone when it fails in the
-- middle. So in each script, what may fail is called with pcall, or comes before the first write.
--
-- KEYS[1]    memory   "HISTORY DB SINCE MAX", see memory.lua
-- KEYS[1+i]  lock     of item i: "OWNER TOKEN" and the label, expires with the lease. TOKEN is 0 until the owner has
--                     raised the counter. Or "LOCKER turn": it is kept for a waiter. No key: the lock is free here.
--                     If an operator takes it away: "!OWNER TOKEN", the label, which may be empty, and the breach
--
-- A lock has further keys, which are made from its key, because no server is part of a Cluster:
--
-- LOCK:token        the counter: the highest token that this server has agreed to
-- LOCK:waiters      sorted set of the channels of waiters, each with the label; the score is a ticket: first come, smallest
-- LOCK:tomb:OWNER   stops a late request of this owner; the breach, if an operator has taken its lease away
--
-- The label is what the acquisition says of itself, for people who look. It is a line of its own, and
-- may be missing. What else follows the first line, whoever has written it, changes nothing.
--
-- ARGV[1]  max      the longest TTL of all locks, in milliseconds
-- ARGV[2]  channel  on which the Locker hears that it may ask; '' if it doesn't listen
-- ARGV[3]  db       the number of the database
-- and of each item:
--          owner    of the attempt that asks, a random id
--          token    that it proposes, or has got
--          ttl      of its lease, in milliseconds
--          ticket   when it began to wait; '' if it doesn't
--          said     a line feed and the label; '' without a label, and in renew
--
-- The answer is a list with a text for each item; or a text alone, if this server must not take
-- part now.

local ITEM = 5 -- arguments of an item

local function each(step)
  for i = first, #KEYS do
    local a = 4 + (i - 2) * ITEM
    answers[i - 1] = step(KEYS[i], ARGV[a], tonumber(ARGV[a + 1]), ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
  end
  return answers
end

-- holder returns the owner of the lease that exists; '!OWNER' if it is marked. What somebody else has
-- written to the key, of any type, holds the lock as well.
local function holder(lock)
  local held = redis.pcall('GET', lock)
  if not held then return nil end
  return type(held) == 'string' and string.match(held, '^%S+') or '?'
end
