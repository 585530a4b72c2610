-- Those who wait. It is a courtesy, on which nothing rests: who isn't told asks again a little later.

-- place writes down that somebody waits, and returns how many came before.
local function place(lock, ttl, ticket)
  if ticket == '' or ARGV[2] == '' then return 0 end
  local waiters = lock .. ':waiters'
  if type(redis.pcall('ZADD', waiters, 'NX', ticket, ARGV[2])) == 'table' then
    return 0 -- an error: somebody has put something else there
  end
  if redis.call('PTTL', waiters) < tonumber(ttl) then
    redis.call('PEXPIRE', waiters, ttl)
  end
  return redis.call('ZRANK', waiters, ARGV[2])
end

local function leave(lock, ticket)
  if ticket ~= '' and ARGV[2] ~= '' then redis.pcall('ZREM', lock .. ':waiters', ARGV[2]) end
end

-- wake tells the first of those who wait, and still listen, that the lock is free. It is told once: then it asks, and
-- takes its old place if the lock is held.
local function wake(lock)
  while true do
    local first = redis.pcall('ZPOPMIN', lock .. ':waiters')[1]
    if not first or redis.pcall('PUBLISH', first, lock) ~= 0 then return end
  end
end
