-- release removes whatever exists of an owner, and hands the lock on if the owner had it. It may be
-- executed any number of times, at any time.
--
-- ARGV[2]  ttl      of the tombstone, in milliseconds
-- ARGV[3]  'late': a request of this owner may still arrive though all that is known was answered
--
-- If there is nothing to remove, the request that acquires may still be on its way, and would
-- create a lock that nobody knows of. So the owner gets a tombstone, which acquire looks for. It
-- lasts for the TTL of the lease at least, and for as long as the client may still send a copy. The
-- lock of a request that was on its way for longer ends after a TTL. (No tombstone lasts for more
-- than a day.) A tombstone that exists is not shortened: what removes a lock that was granted to nobody
-- (former_owners.go) may not know the TTL.

-- include args.lua

local lease = redis.pcall('GET', KEYS[1]) -- an error if somebody has put something else there
local held = type(lease) == 'string'
  and (string.sub(lease, 1, #owner + 1) == owner .. ' ' or string.sub(lease, 1, #owner + 2) == '!' .. owner .. ' ')
if held then
  redis.call('DEL', KEYS[1])
  if ARGV[3] == '' and redis.call('EXISTS', KEYS[3]) == 0 then
    return GONE -- the usual case: nobody waits
  end
end
-- If somebody else has put a key of another type in the place of the queue, there is no queue: the
-- lock can't be handed to anybody then, but its holder can release it.
local places = redis.pcall('ZCARD', KEYS[3])
local waits = type(places) == 'number' and places > 0 and type(redis.pcall('HGET', KEYS[4], owner)) ~= 'table'
if held and not waits and ARGV[3] == '' then
  return GONE
end

-- include kept.lua
-- include token.lua
-- include queue.lua

local waited = waits and not held and leave(owner)
if not held and not waited or ARGV[3] == 'late' then
  redis.call('SET', KEYS[5], '', 'PX', math.max(math.min(ttl, 24 * hour), redis.call('PTTL', KEYS[5])))
end
if waits and advance() and waited and #messages == 0 then
  alert(redis.call('PTTL', KEYS[1])) -- another waiter may have become the first by this
end
return finish({GONE})
