-- tombstone_one makes the tombstone of release.lua, for a Cluster: see cluster.go.
--
-- KEYS[1]  tomb
-- ARGV[2]  ttl      of the tombstone, in milliseconds

-- include args.lua
-- include kept.lua

redis.call('SET', KEYS[1], '', 'PX', math.max(math.min(ttl, 24 * hour), redis.call('PTTL', KEYS[1])))
return GONE
