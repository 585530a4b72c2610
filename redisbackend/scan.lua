-- scan is SCAN for a client of a caller's: see select.lua.
--
-- ARGV[1]  cursor
-- ARGV[2]  pattern of the keys
-- ARGV[3]  count    how many keys the server looks at
return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
