-- keep_one renews the last token of a lease that was renewed, for a Cluster: see cluster.go.
--
-- KEYS[1]  token

-- include args.lua
-- include kept.lua

keep_token(KEYS[1], ttl)
return GONE
