-- Waiters. This only saves time, and no guarantee depends on it: a waiter that isn't notified asks
-- again a little later.

-- me is how a lock that is kept for the Locker that asks names this Locker.
local me = string.match(ARGV[2], '%x+$')

-- turn is for how many milliseconds a lock is kept for the waiter that was notified, so that nobody
-- else comes first.
local turn = 100

-- every is how often the first waiter asks, in milliseconds; the second half as often, and so on.
-- stagger is by how much each is later than the one before when a lease is over. Both are in
-- waitlist.go as well.
local every, stagger = 1000, 50

-- most is how many waiters a call looks at. Others wait for the script.
local most = 64

-- ticket_of returns the ticket of a place. A place is the Locker's channel and what the acquisition
-- that waits has said of itself. Acquisitions that don't wait any more are handled here too, when
-- they release or come late. One that has said the same, or nothing, leaves a later place alone.
local function ticket_of(waiters, said)
  return tonumber(redis.pcall('ZSCORE', waiters, ARGV[2] .. said) or nil)
end

-- tell tells the waiter at a rank to ask within so many milliseconds. It returns whether that one
-- listens; nil: there is none. One that doesn't listen is dead, or is subscribing again and takes
-- its place when it asks. So its place is removed.
local function tell(lock, rank, time)
  local waiters = lock .. ':waiters'
  local other = redis.pcall('ZRANGE', waiters, rank, rank)[1]
  if not other then return nil end
  local receivers = redis.pcall('PUBLISH', string.match(other, '^[^\n]*'), lock .. ' ' .. time)
  if type(receivers) ~= 'number' or receivers > 0 then return true end -- not a number: forbidden
  redis.call('ZREM', waiters, other)
  return false
end

-- alert tells the next waiters when the lease is over that now begins: they may know only the former
-- one, which would have lasted longer. There may be nobody else to see its end. Several are told,
-- because the first may die. None asks more rarely than its place requires, which was another when it
-- asked last.
local function alert(lock, ttl)
  local rank = 0
  for _ = 1, most do
    if rank == 4 then return end
    local listens = tell(lock, rank, math.min(ttl + rank * stagger, (rank + 1) * every))
    if listens == nil then return end
    if listens then rank = rank + 1 end
  end
end

-- place notes that somebody waits, and returns how many waiters came before. The dead right before
-- it are removed, so that they don't stay for as long as somebody holds the lock. The waiters are
-- known until this one asks again, also if its TTL is shorter.
local function place(lock, ttl, ticket, said)
  if ticket == '' or not me then return 0 end
  local waiters = lock .. ':waiters'
  if (ticket_of(waiters, said) or 0) < tonumber(ticket) then
    if type(redis.pcall('ZADD', waiters, ticket, ARGV[2] .. said)) == 'table' then
      return 0 -- an error: somebody has put something else there
    end
  end
  local rank = redis.call('ZRANK', waiters, ARGV[2] .. said)
  for _ = 1, most do
    if rank == 0 or tell(lock, rank - 1, rank * every) ~= false then break end
    rank = rank - 1
  end
  local known = math.max(ttl, (2 * math.min(rank, 100) + 3) * every)
  if redis.call('PTTL', waiters) < known then
    redis.call('PEXPIRE', waiters, known)
  end
  return rank
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
