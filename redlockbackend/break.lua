-- break takes locks away from the leases that have their owners and tokens, for an operator. It marks
-- a lease, which changes nothing for others, or ends it and notifies the next waiter. It may be
-- executed twice, also by a server that must not take part. It answers
--
-- marked LEFT  the lease has the mark, which stays if it was there already, and lasts for LEFT
--              milliseconds unless it is released
-- ended        the lease had the lock here, and is ended
-- gone         it doesn't have the lock here
--
-- The arguments of an item, in the order of args.lua: owner, token, the TTL of the tombstone, 'now' to end
-- the lease or '' to mark it, and the breach in one line.
--
-- In any case the owner gets a tombstone, so a request that is late makes nothing of the lease. It tells
-- a holder that renews who has ended the lease.

-- include begin.lua
-- include args.lua
-- include waiters.lua

return each(function(lock, owner, token, ttl, mode, breach)
  local line = owner .. ' ' .. string.format('%.0f', token)
  local held = redis.pcall('GET', lock) -- an error if somebody has put something else there
  local first = type(held) == 'string' and string.match(held, '^[^\n]*')
  local tomb = lock .. ':tomb:' .. owner
  if first ~= line and first ~= '!' .. line then
    redis.pcall('SET', tomb, breach, 'PX', ttl, 'NX')
    return 'gone'
  end
  if mode == 'now' then
    redis.call('DEL', lock)
    redis.pcall('SET', tomb, breach, 'PX', ttl)
    wake(lock)
    return 'ended'
  end
  if first == line then
    local label = string.match(held, '^[^\n]*\n([^\n]*)') or ''
    redis.call('SET', lock, '!' .. line .. '\n' .. label .. '\n' .. breach, 'KEEPTTL')
  end
  redis.pcall('SET', tomb, breach, 'PX', ttl, 'NX') -- as the mark, the first breach stays
  return 'marked ' .. redis.call('PTTL', lock)
end)
