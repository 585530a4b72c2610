-- acquire is the only script that creates. It may be executed twice for an owner: what the owner
-- has got already it gets again, and the TTL starts again.

-- include args.lua

-- The usual case: nobody has the lock, nobody waits, there is no tombstone, and the clock has passed
-- the last token. It does what take does (token.lua), without the functions of that file: to define
-- a function costs half as much as a command.
local free = redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0
if free then
  local time = redis.call('TIME')
  local token = time[1] .. string.sub('00000' .. time[2], -6)
  local last = redis.call('SET', KEYS[2], token, 'PX', ttl < hour and ttl + hour or 2 * hour, 'GET')
  if not last or #last == #token and last < token then
    redis.call('SET', KEYS[1], owner .. ' ' .. token .. said, 'PX', ARGV[2])
    return token
  end
  redis.call('SET', KEYS[2], last, 'PX', 2 * hour) -- put back, because take reads it
end

-- include kept.lua
-- include token.lua

if free then
  return take()
end
if redis.call('EXISTS', KEYS[5]) == 1 then
-- include mark.lua
  local breach = marked(redis.pcall('GET', KEYS[1]))
  if breach then return {BROKEN, breach} end
  local why = redis.pcall('GET', KEYS[5])
  if type(why) == 'string' and why ~= '' then return {GONE, why} end -- it was broken at once
  return {GONE} -- it was released already; this request was delayed
end

-- include queue.lua

local current, token = advance()
if not current then -- all waiters are dead, or there is no queue
  return finish({GRANTED, take()})
end
if current == owner then
  rearm()
  return finish({GRANTED, token})
end
if current == '!' .. owner then -- without a tombstone: in a Cluster
-- include mark.lua
  return {BROKEN, marked(redis.call('GET', KEYS[1]))}
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
