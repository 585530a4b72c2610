-- renew_one is renew with one key, for a Cluster: see cluster.go. The last token is renewed by
-- keep_one.
--
-- KEYS[1]  lock

-- include args.lua

local held = redis.pcall('GET', KEYS[1]) -- an error if somebody has put something else there
local current, token = string.match(type(held) == 'string' and held .. '\n' or '', '^(%S+) (%d+)\n')
if current ~= owner then
-- include mark.lua
  local breach = marked(held)
  return breach and {BROKEN, breach} or GONE
end
redis.call('PEXPIRE', KEYS[1], ttl)
return token
