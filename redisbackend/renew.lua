-- renew starts the TTL of a lease or of a place in the queue again, and never creates one. A waiter
-- that has missed the message learns here that it has the lock.

-- include args.lua
-- include token.lua
-- include queue.lua

local current, token = advance()
if current == owner then
  rearm()
  return finish({GRANTED, token})
end
local rank = refresh()
if rank then
  return finish({QUEUED, redis.call('PTTL', KEYS[1]), listeners(channel), rank})
end
return finish({GONE})
