-- Those who wait. It is a courtesy, on which nothing rests: who isn't told asks again a little later.

-- me is how a lock names the Locker that asks, where it is kept for it.
local me = string.match(ARGV[2], '%x+$')

-- turn is for how many milliseconds a lock is kept for who was told that it is free, so that nobody else comes first.
local turn = 100

-- standing is the ticket that a Locker has a place with: that of the one of its acquisitions that waits. Those that
-- don't wait any more come here too, to release, or late, and leave that place alone.
local function standing(waiters)
  return tonumber(redis.pcall('ZSCORE', waiters, ARGV[2]) or nil)
end

-- place writes down that somebody waits, and returns how many came before.
local function place(lock, ttl, ticket)
  if ticket == '' or not me then return 0 end
  local waiters = lock .. ':waiters'
  if (standing(waiters) or 0) < tonumber(ticket) then
    if type(redis.pcall('ZADD', waiters, ticket, ARGV[2])) == 'table' then
      return 0 -- an error: somebody has put something else there
    end
  end
  if redis.call('PTTL', waiters) < tonumber(ttl) then
    redis.call('PEXPIRE', waiters, ttl)
  end
  return redis.call('ZRANK', waiters, ARGV[2])
end

local function leave(lock, ticket)
  local waiters = lock .. ':waiters'
  if ticket ~= '' and me and standing(waiters) == tonumber(ticket) then redis.call('ZREM', waiters, ARGV[2]) end
end

-- wake tells the first of those who wait, and still listen, that the lock is free, and keeps it for that one for a moment.
-- It is told once: then it asks, and takes its old place if the lock is held all the same.
local function wake(lock)
  while true do
    local first = redis.pcall('ZPOPMIN', lock .. ':waiters')[1]
    if not first then return end
    local told = redis.pcall('PUBLISH', first, lock)
    if type(told) == 'number' and told > 0 then
      redis.pcall('SET', lock, string.match(first, '%x*$') .. ' turn', 'PX', turn)
      return
    end
  end
end
