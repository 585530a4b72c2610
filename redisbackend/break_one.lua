-- break_one is break with one key, for a Cluster: see cluster.go. The tombstone is made by
-- tombstone_one, and nobody queues.
--
-- KEYS[1]  lock

-- include args.lua
-- include marking.lua

return take_away()
