-- renew starts the TTL of leases again, and never creates one. It answers
--
-- renewed  the lock is the owner's, and has been since it raised the counter to this very token
-- gone     it is not; followed by the breach, if an operator has ended it
-- broken BREACH
--          it is, and an operator takes it away: it isn't renewed any more

-- include begin.lua
-- include args.lua
-- include memory.lua

local why = forgetful()
if why then return why end

return each(function(lock, owner, token, ttl)
  local held = redis.pcall('GET', lock) -- an error if somebody has put something else there
  local first = type(held) == 'string' and string.match(held, '^[^\n]*')
  if first ~= owner .. ' ' .. text(token) then
    if first and string.sub(first, 1, #owner + 2) == '!' .. owner .. ' ' then
      return 'broken ' .. (string.match(held, '^[^\n]*\n[^\n]*\n([^\n]*)') or '')
    end
    local breach = redis.pcall('GET', lock .. ':tomb:' .. owner)
    return type(breach) == 'string' and breach ~= '' and 'gone ' .. breach or 'gone'
  end
  redis.call('PEXPIRE', lock, ttl)
  return 'renewed'
end)
