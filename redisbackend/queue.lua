-- What a script needs where somebody waits, or holds the lock.

-- holder returns the owner and the token of the lease that exists; '!OWNER' if it is marked. What
-- somebody else has written to the key, of any type, holds the lock as well.
local function holder()
  local held = redis.pcall('GET', KEYS[1])
  if not held then return nil end
  if type(held) ~= 'string' then return '' end
  local current, token = string.match(held .. '\n', '^(%S+) (%d+)\n')
  return current or '', token
end

-- listeners counts the subscribers of a channel on this server. Those on its replicas are not seen.
local function listeners(c)
  if c == '' then return 0 end
  return redis.call('PUBSUB', 'NUMSUB', c)[2]
end

-- foreign says whether a reply is the error that a key is of another type: somebody else has put
-- something in the place of the queue or of its hash. Then there is no queue, so a lock that is free
-- goes to who asks, and a holder learns what has become of its lease. Any other error ends the script.
local function foreign(reply)
  if type(reply) ~= 'table' or not reply.err then return false end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then error(reply.err, 0) end
  return true
end

-- leave removes an owner's place from the queue, and says whether it had one.
local function leave(id)
  redis.call('HDEL', KEYS[4], id)
  return redis.call('ZREM', KEYS[3], id) == 1
end

-- Messages to Lockers, which finish sends: {channel, text}. The text is "OWNER TOKEN STAMP KEY" for
-- a grant, or "OWNER MILLISECONDS" for when to ask.
local messages = {}

-- The parts of what KEYS[4] has about a place: TTL REFRESHED STAMP CHANNEL, and what the waiter said:
-- the rest, with its line feed.
local pattern = '^(%d+) (%d+) (%S+) ([^\n]+)(.*)$'

-- alert notifies the next waiters when to ask: when the lease that has just begun is over. They
-- know nothing of that lease, and there may be nobody else to see it end. Only waiters that won't
-- renew their place before that are notified: those with a longer TTL than the holder. More than
-- one is notified, because the first may be dead. Each is to ask a little later than the one
-- before, by the stagger of recheck.go.
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

-- advance hands a lock that is free to the first live waiter, and returns the holder and its token; nil:
-- it stays free, because nobody waits.
-- Each script that may find the lock free and somebody waiting calls it. (Those with one key don't:
-- in a Cluster nobody queues.) So nobody takes a lock past the queue, and the next request after the
-- end of a lease makes the next waiter the holder.
--
-- A waiter is alive if it is the caller, or if it has refreshed its place within two thirds of its
-- TTL and listens. A process that was killed is passed over at once, because its connection has
-- ended. A waiter that doesn't listen keeps its place until it is stale: it may be connecting
-- again.
--
-- The new holder doesn't answer at this moment, and nothing proves that it is alive. So its lease
-- counts from its last refresh: it ends a TTL after that. The stamp says which refresh that was,
-- and the holder counts its deadline from when it sent that one. So a server that has taken over
-- and missed the latest refresh grants less time, and both know it.
local function advance()
  local current, token = holder()
  local skipped = 0
  while not current do
    local first = redis.pcall('ZRANGE', KEYS[3], skipped, skipped)
    if foreign(first) or not first[1] then return nil end
    first = first[1]
    local place = redis.pcall('HGET', KEYS[4], first)
    if foreign(place) then return nil end
    if first == owner then
      token = take()
      leave(owner)
      alert(ttl)
      return owner, token
    end
    local lease, refreshed, its_stamp, on, its_label = string.match(place or '', pattern)
    local left = lease and math.min(refreshed + lease - millis(), tonumber(lease)) -- more, if the clock was set back
    if not lease or left <= lease / 3 then
      leave(first)
    elseif listeners(on) == 0 then
      skipped = skipped + 1
    else
      current, token = first, mint(lease)
      redis.call('SET', KEYS[1], current .. ' ' .. token .. its_label, 'PX', left)
      leave(current)
      messages[1] = {on, table.concat({current, token, its_stamp, KEYS[1]}, ' ')}
      alert(left)
    end
  end
  return current, token
end

-- finish sends the messages, last of all and without failing: what they say is done, whether they
-- arrive or not. It doesn't matter how many subscribers get them: a new holder that hears nothing
-- finds out when it renews its place, and subscribers on a replica aren't counted.
local function finish(answer)
  for _, m in ipairs(messages) do redis.pcall('PUBLISH', m[1], m[2]) end
  return answer
end

local function keep(key, time)
  if redis.call('PTTL', key) < time then redis.call('PEXPIRE', key, time) end
end

-- rearm starts the TTL of the caller's lease again, and the time for which the last token is kept.
local function rearm()
  redis.call('PEXPIRE', KEYS[1], ttl)
  keep_token(KEYS[2], ttl)
end

-- place writes the caller's place in the queue, which is new if a ticket is given, or refreshes it.
-- The queue expires when its last waiter must be dead. The hash is written first: it may be of
-- another type, and then nothing was written. (KEYS[3] is known to be of its type by then.)
local function place(ticket)
  redis.call('HSET', KEYS[4], owner, string.format('%.0f %.0f %s %s', ttl, millis(), stamp, channel) .. said)
  if ticket then redis.call('ZADD', KEYS[3], ticket, owner) end
  keep(KEYS[3], ttl)
  keep(KEYS[4], ttl)
end

-- sweep removes the dead among the eight waiters right before a rank, and returns the rank without
-- them. While somebody holds the lock nobody is granted it, and live waiters keep the queue alive,
-- so the dead would stay in it. A waiter is dead if it has not refreshed its place for its TTL:
-- whatever it was granted would be over. Eight at a time keep a renewal short, and the next renewal
-- looks at the next ones.
--
-- It comes after place, when KEYS[3] and KEYS[4] are known to be of their types: nothing in it can
-- fail.
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
  local rank = redis.pcall('ZRANK', KEYS[3], owner)
  if not rank or foreign(rank) then return false end
  place()
  return sweep(rank)
end
