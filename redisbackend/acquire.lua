-- acquire is the only script that creates. It may be executed twice for an owner: what the owner
-- has got already it gets again, and the TTL starts again.

-- include args.lua
-- include token.lua

if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  return take() -- nobody has it, nobody waits, and there is no tombstone: the usual case
end
if redis.call('EXISTS', KEYS[5]) == 1 then
  return {GONE} -- it was released already; this request was delayed
end

-- include queue.lua

local current, token = advance()
if not current then -- all waiters are dead
  return finish({GRANTED, take()})
end
if current == owner then
  rearm()
  return finish({GRANTED, token})
end

local heard = listeners(channel)
local rank = channel ~= '' and refresh()
if not rank and heard > 0 then -- it will be notified of its grant
  local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
  place((last or 0) + 1)
  rank = sweep(redis.call('ZCARD', KEYS[3]) - 1)
end
local pttl = redis.call('PTTL', KEYS[1])
if rank then
  return finish({QUEUED, pttl, heard, rank})
end
return finish({HELD, pttl, heard})
