-- release removes whatever exists of an owner, and notifies the next waiter. It may be executed any
-- number of times, at any time, also by a server that must not take part. It answers
--
-- released       nothing of the owner exists, and nothing that is on its way can make it exist
-- refused ERROR  the tombstone could not be set, for example because the memory is full
--
-- The token is 1 if waiters are to be notified. They aren't when an attempt has failed. The ttl is the
-- tombstone's.
--
-- If there is no lock to remove, the request that acquires may still be on its way, and would
-- create one that nobody knows of. So the owner gets a tombstone, which acquire looks for. It lasts
-- for the TTL of the lease at least, and for as long as the client may still send the request. The
-- lock of a request that was on its way for longer ends after a TTL.

-- include begin.lua

-- The quick way, for locks that their owners have and nobody waits for; see acquire.lua.
for i = 2, #KEYS do
  local lock = KEYS[i]
  local held = redis.pcall('GET', lock)
  if type(held) ~= 'string' or string.find(held, ARGV[5 * i - 6] .. ' ', 1, true) ~= 1
    or redis.call('EXISTS', lock .. ':waiters') > 0 then break end
  redis.call('DEL', lock)
  answers[i - 1], first = 'released', i + 1
end
if first > #KEYS then return answers end

-- include args.lua
-- include waiters.lua

return each(function(lock, owner, notify, ttl, ticket, said)
  local current = holder(lock)
  if current == owner or current == '!' .. owner then
    redis.call('DEL', lock)
    current = nil
  else
    local done = redis.pcall('SET', lock .. ':tomb:' .. owner, '', 'PX', ttl)
    if done.err then return 'refused ' .. done.err end
    if current and current == me and ticket ~= '' then
      -- It is kept for us, and we don't want it any more. A release that is repeated may take back the turn
      -- of another acquisition of this Locker, which then asks again when the next turn is over.
      redis.call('DEL', lock)
      current = nil
    end
  end
  leave(lock, ticket, said)
  if not current and notify == 1 then wake(lock) end
  return 'released'
end)
