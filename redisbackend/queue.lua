-- What a script needs where somebody waits, or holds the lock.

-- holder returns the owner and the token of the lease that stands. What somebody else has written to the key, of
-- whatever type, holds the lock as well.
local function holder()
  local held = redis.pcall('GET', KEYS[1])
  if not held then return nil end
  if type(held) ~= 'string' then return '' end
  local who, token = string.match(held, '^(%S+) (%d+)$')
  return who or '', token
end

-- listeners counts who listens to a channel, on this server: those on its replicas are not seen.
local function listeners(c)
  if c == '' then return 0 end
  return redis.call('PUBSUB', 'NUMSUB', c)[2]
end

-- leave takes an owner's place out of the queue, and says whether it had one.
local function leave(who)
  redis.call('HDEL', KEYS[4], who)
  return redis.call('ZREM', KEYS[3], who) == 1
end

-- Messages to Lockers, which finish sends: {channel, text}.
local messages = {}

-- The four parts of what KEYS[4] has about a place.
local pattern = '^(%d+) (%d+) (%S+) (.+)$'

-- alert tells those who come next when to ask again: when the lease that has just begun is over, of which they know
-- nothing. Nobody else may be there to see it end. It is for those alone that won't renew their place before: those
-- with a longer TTL than the holder. More than one is told, because the first may be dead, and each a little later, by
-- the step of look.go.
local function alert(left)
  local next = redis.call('ZRANGE', KEYS[3], 0, 3)
  if #next == 0 then return end
  for i, place in ipairs(redis.call('HMGET', KEYS[4], unpack(next))) do
    local lease, refreshed, _, on = string.match(place or '', pattern)
    if lease and refreshed + lease / 3 - millis() > left then
      messages[#messages + 1] = {on, next[i] .. ' ' .. left + (i - 1) * 20}
    end
  end
end

-- advance hands a lock that is free to the first waiter that is alive, and returns the holder and its token. Every
-- script calls it, so nobody takes a lock past the queue, and a lease that has expired is followed up by whoever asks
-- next.
--
-- Alive is who asks right now, or who has refreshed its place within two thirds of its TTL and listens: a process
-- that was killed is passed over at once, because its connection has ended. Who doesn't listen keeps its place until
-- it is stale: its connection may be on its way back.
--
-- The new holder can't prove at this moment that it is alive, so its lease rests on its last refresh: it ends a TTL
-- after that. The stamp tells it which refresh that was; it counts its deadline from when it sent that one. So a
-- server that has taken over and missed the latest refresh grants less time, and both know it.
local function advance()
  local who, token = holder()
  local skipped = 0
  while not who do
    local first = redis.call('ZRANGE', KEYS[3], skipped, skipped)[1]
    if not first then return nil end
    local place = redis.call('HGET', KEYS[4], first)
    if first == owner then
      token = take()
      leave(owner)
      alert(ttl)
      return owner, token
    end
    local lease, refreshed, mark, on = string.match(place or '', pattern)
    local left = lease and math.min(refreshed + lease - millis(), tonumber(lease)) -- more, if the clock was set back
    if not lease or left <= lease / 3 then
      leave(first)
    elseif listeners(on) == 0 then
      skipped = skipped + 1
    else
      who, token = first, mint(lease)
      redis.call('SET', KEYS[1], who .. ' ' .. token, 'PX', left)
      leave(who)
      messages[1] = {on, table.concat({who, token, mark, KEYS[1]}, ' ')}
      alert(left)
    end
  end
  return who, token
end

-- finish sends the messages, last of all and without failing: what they say is done, whether they get through or not.
-- Nor does it matter how many get them: a new holder that hears nothing finds out when it renews its place, and
-- listeners on a replica aren't counted.
local function finish(answer)
  for _, m in ipairs(messages) do redis.pcall('PUBLISH', m[1], m[2]) end
  return answer
end

local function keep(key, time)
  if redis.call('PTTL', key) < time then redis.call('PEXPIRE', key, time) end
end

-- rearm starts the TTL of the caller's lease again, and with it the time for which the last token is kept.
local function rearm()
  redis.call('PEXPIRE', KEYS[1], ttl)
  keep_token(KEYS[2], ttl)
end

-- place writes down the caller's place in the queue, which is new if a ticket is given, or that it still wants it. The
-- queue goes when its last waiter must be dead. The hash comes first: it may be of another type, and then nothing was written.
-- (That KEYS[3] is of its type is known by then.)
local function place(ticket)
  redis.call('HSET', KEYS[4], owner, string.format('%.0f %.0f %s %s', ttl, millis(), stamp, channel))
  if ticket then redis.call('ZADD', KEYS[3], ticket, owner) end
  keep(KEYS[3], ttl)
  keep(KEYS[4], ttl)
end

-- sweep takes out the dead among the eight right before a rank, and returns what is left of the rank. While somebody
-- holds the lock nobody's turn comes, and those who live keep the queue alive, so the dead would stay in it. Dead is who
-- has not refreshed its place for its TTL: whatever it were granted would be over. Eight at a time keep a renewal short,
-- and the next ones have their turn with the next renewal.
--
-- It comes after place, when KEYS[3] and KEYS[4] are known to be of their types: nothing in it can fail.
local function sweep(rank)
  if rank == 0 then return 0 end
  local before = redis.call('ZRANGE', KEYS[3], math.max(rank - 8, 0), rank - 1)
  for i, other in ipairs(redis.call('HMGET', KEYS[4], unpack(before))) do
    local lease, refreshed = string.match(other or '', pattern)
    if not lease or refreshed + lease <= millis() then
      leave(before[i])
      rank = rank - 1
    end
  end
  return rank
end

-- refresh renews the caller's place and returns its rank, from 0, or false if it has none.
local function refresh()
  local rank = redis.call('ZRANK', KEYS[3], owner)
  if not rank then return false end
  place()
  return sweep(rank)
end
