-- break takes locks away from the leases that have their owners and tokens, for an operator. It marks
-- a lease, which changes nothing for others, or ends it and notifies the next waiter. It may be
-- executed twice, also by a server that must not take part. It answers
--
-- marked LEFT  the lease has the mark, which stays if it was there already, and lasts for LEFT
--              milliseconds unless it is released
-- ended        the lease had the lock here, and is ended
-- gone         it doesn't have the lock here
--
-- The arguments of an item, in the order of args.lua: owner, token, the TTL of the tombstone, 'now' to
-- end the lease or '' to mark it, and the breach in one line. An owner has one lease. Its lock may have
-- another token here as long as the second phase has not come (raise.lua): that must not find a lock
-- that is neither marked nor ended.
--
-- In any case the owner gets a tombstone, so a request that is late makes nothing of the lease. It tells
-- a holder that renews who has ended the lease.

-- include begin.lua
-- include args.lua
-- include waiters.lua

return each(function(lock, owner, _, ttl, mode, breach)
  local held = redis.pcall('GET', lock) -- an error if somebody has put something else there
  local mark, line = string.match(type(held) == 'string' and held or '', '^(!?)([^\n]*)')
  local tomb = lock .. ':tomb:' .. owner
  if string.match(line, '^(%S+) %d+$') ~= owner then
    redis.call('SET', tomb, breach, 'PX', ttl, 'NX') -- without it the lease could still come here
    return 'gone'
  end
  if mode == 'now' then
    redis.call('DEL', lock)
    redis.pcall('SET', tomb, breach, 'PX', ttl)
    wake(lock)
    return 'ended'
  end
  if mark == '' then
    local label = string.match(held, '^[^\n]*\n([^\n]*)') or ''
    redis.call('SET', lock, '!' .. line .. '\n' .. label .. '\n' .. breach, 'KEEPTTL')
  end
  redis.pcall('SET', tomb, breach, 'PX', ttl, 'NX') -- as the mark, the first breach stays
  return 'marked ' .. redis.call('PTTL', lock)
end)
