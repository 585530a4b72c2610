-- renew starts the TTL of a lease or of a place in the queue again, and never creates one. A waiter
-- that has missed the message learns here that it has the lock.

-- include args.lua
-- include kept.lua

-- The usual case: a lease that exists. It comes before the functions that it doesn't need, because
-- each definition costs time.
local lease = redis.pcall('GET', KEYS[1]) -- an error if somebody has put something else there
if type(lease) == 'string' and string.sub(lease, 1, #owner + 1) == owner .. ' ' then
  local token = string.match(lease .. '\n', '^%S+ (%d+)\n')
  if token then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    keep_token(KEYS[2], ttl)
    return token
  end
end

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

-- include mark.lua

local breach = marked(lease)
if breach then
  return {BROKEN, breach}
end
local why = redis.pcall('GET', KEYS[5])
if type(why) == 'string' and why ~= '' then
  return finish({GONE, why})
end
return finish({GONE})
