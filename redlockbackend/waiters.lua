-- Waiters. This only saves time, and no guarantee depends on it: a waiter that isn't notified asks
-- again a little later.

-- me is how a lock that is kept for the Locker that asks names this Locker.
local me = string.match(ARGV[2], '%x+$')

-- turn is for how many milliseconds a lock is kept for the waiter that was notified, so that nobody
-- else comes first.
local turn = 100

-- ticket_of returns the ticket of a place. A place is the Locker's channel and what the acquisition
-- that waits has said of itself. Acquisitions that don't wait any more are handled here too, when
-- they release or come late. One that has said the same, or nothing, leaves a later place alone.
local function ticket_of(waiters, said)
  return tonumber(redis.pcall('ZSCORE', waiters, ARGV[2] .. said) or nil)
end

-- place notes that somebody waits, and returns how many waiters came before.
local function place(lock, ttl, ticket, said)
  if ticket == '' or not me then return 0 end
  local waiters = lock .. ':waiters'
  if (ticket_of(waiters, said) or 0) < tonumber(ticket) then
    if type(redis.pcall('ZADD', waiters, ticket, ARGV[2] .. said)) == 'table' then
      return 0 -- an error: somebody has put something else there
    end
  end
  if redis.call('PTTL', waiters) < tonumber(ttl) then
    redis.call('PEXPIRE', waiters, ttl)
  end
  return redis.call('ZRANK', waiters, ARGV[2] .. said)
end

local function leave(lock, ticket, said)
  local waiters = lock .. ':waiters'
  if ticket ~= '' and me and ticket_of(waiters, said) == tonumber(ticket) then
    redis.call('ZREM', waiters, ARGV[2] .. said)
  end
end

-- wake notifies the first waiter that still listens, and keeps the lock for it for a moment. The
-- waiter is notified once: then it asks, and takes its old place if the lock is held again.
local function wake(lock)
  while true do
    local first = redis.pcall('ZPOPMIN', lock .. ':waiters')[1]
    if not first then return end
    first = string.match(first, '^[^\n]*') -- its channel
    local receivers = redis.pcall('PUBLISH', first, lock)
    if type(receivers) == 'number' and receivers > 0 then
      redis.pcall('SET', lock, string.match(first, '%x*$') .. ' turn', 'PX', turn)
      return
    end
  end
end
