-- raise is the second phase: for an owner that has the lock on a majority, but whose token was too
-- small for some servers. It proposes a larger token. It answers
--
-- raised          the lock is still the owner's, and the counter was below the token and was raised to it
-- granted C MAX   the lock is still the owner's, but the counter is C, so the token was too small, or larger
--                 than MAX
-- gone            it is not the owner's any more
--
-- A repeated request is never answered with raised, because the counter is not below its token any
-- more.

-- include begin.lua
-- include args.lua
-- include memory.lua
-- include token.lua

local why = forgetful()
if why then return why end

return each(function(lock, owner, token, _, _, said)
  if holder(lock) ~= owner then
    return 'gone'
  end
  local short = raise(lock, owner, token, said, 'KEEPTTL')
  return short and 'granted ' .. short or 'raised'
end)
