-- renew starts the TTL of leases again, and never creates one. It answers
--
-- renewed  the lock is the owner's, and has been since it raised the counter to this very token
-- gone     it is not

-- include begin.lua
-- include args.lua
-- include memory.lua

local why = forgetful()
if why then return why end

return each(function(lock, owner, token, ttl)
  local held = redis.pcall('GET', lock) -- an error if somebody has put something else there
  if type(held) ~= 'string' or string.match(held, '^[^\n]*') ~= owner .. ' ' .. text(token) then
    return 'gone'
  end
  redis.call('PEXPIRE', lock, ttl)
  return 'renewed'
end)
