-- release_one is release with one key, for a Cluster: see cluster.go. The tombstone is made by
-- tombstone_one.
--
-- KEYS[1]  lock

-- include args.lua

local held = redis.pcall('GET', KEYS[1]) -- an error if somebody has put something else there
if type(held) == 'string' and string.match(held, '^!?(%S+)') == owner then
  redis.call('DEL', KEYS[1])
end
return GONE
