-- break takes the lock away from the lease that has an owner and a token, for an operator. It marks
-- the lease, which changes nothing for others, or ends it at once and hands the lock on. It may be
-- executed twice.
--
-- ARGV[2]  ttl      of the tombstone, in milliseconds: at least what the lease has left
-- ARGV[3]  token    of the lease
-- ARGV[4]  mode     'now': end it at once; '': mark it
-- ARGV[5]  breach   who takes it away, when and why, in one line
--
-- It answers {HELD, pttl, 0}: it is marked, and lasts so long unless it is released; {GRANTED, token}:
-- it had the lock, and is ended; or {GONE}: it doesn't have the lock, and nothing has changed.
--
-- The tombstone stops a request to acquire that is late, and tells a holder that renews who has
-- ended its lease.

-- include args.lua
-- include marking.lua

local answer = take_away()
if answer[1] == GONE then
  return answer
end
-- The lease is marked or ended, whether there is room for the tombstone or not. As the mark, the first
-- breach stays, unless the lease ends now.
if answer[1] == HELD then
  redis.pcall('SET', KEYS[5], ARGV[5], 'PX', ttl, 'NX')
  return answer
end
redis.pcall('SET', KEYS[5], ARGV[5], 'PX', math.max(ttl, redis.call('PTTL', KEYS[5])))
-- Without a queue, or with something else in its place, nobody gets the lock: see release.lua.
local places = redis.pcall('ZCARD', KEYS[3])
if type(places) ~= 'number' or places == 0 or type(redis.pcall('HGET', KEYS[4], owner)) == 'table' then
  return answer
end

-- include kept.lua
-- include token.lua
-- include queue.lua

advance()
return finish(answer)
