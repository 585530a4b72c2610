-- acquire takes a free lock for an owner, and raises the counter to the token that the owner
-- proposes. It is the only script that creates. It answers
--
-- raised          the lock is the owner's, and the counter was raised to its token
-- granted C MAX   the lock is the owner's, but the counter is C, so the token was too small, or larger than MAX
-- held LEFT RANK OWNER
--                 another owner has it, for LEFT milliseconds if nobody renews it; RANK waiters came before
-- gone            it was released already; this request was delayed
--
-- A repeated request of an owner is never answered with raised, whether the lock exists, or has
-- expired and is created again (the counter is not below its token then). So it can't be counted
-- for a token. And a lock that was created again says TOKEN 0, so no lease can be renewed by it.

-- include args.lua
-- include memory.lua
-- include token.lua
-- include waiters.lua

local why = forgetful()
if why then return why end

return each(function(lock, owner, token, ttl, ticket)
  if redis.call('EXISTS', lock, lock .. ':waiters', lock .. ':tomb:' .. owner) > 0 then
    if redis.call('EXISTS', lock .. ':tomb:' .. owner) == 1 then
      return 'gone'
    end
    local current = holder(lock)
    if current == owner then
      redis.call('PEXPIRE', lock, ttl)
      return 'granted ' .. text(counter(lock)) .. ' ' .. text(limit())
    end
    if current and not (current == me and ticket ~= '') then
      local rank = place(lock, ttl, ticket)
      return 'held ' .. redis.call('PTTL', lock) .. ' ' .. rank .. ' ' .. current
    end
    leave(lock, ticket)
  end
  local short = raise(lock, owner, token, 'PX', ttl)
  if not short then
    return 'raised'
  end
  redis.call('SET', lock, owner .. ' 0', 'PX', ttl)
  return 'granted ' .. short
end)
