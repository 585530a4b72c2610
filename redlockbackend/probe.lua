-- probe runs each command that the other scripts run, once and without effect. It returns the
-- commands that fail, each followed by its error. An empty name is followed by the error that this
-- connection uses another database.
--
-- KEYS[1]  of a lock that nobody uses
-- KEYS[2]  memory, as in args.lua
-- ARGV[1]  a channel without subscribers
-- ARGV[2]  the number of the database, as the client's options say
local failed = {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = name
    failed[#failed + 1] = reply.err
  end
end
local counter, waiters = KEYS[1] .. ':token', KEYS[1] .. ':waiters'
try('TIME')
try('INFO', 'replication')
try('GET', KEYS[2])
try('EXISTS', KEYS[1], waiters, counter)
try('SET', counter, '1', 'PX', 1000)
try('SET', counter, '1', 'KEEPTTL')
try('PEXPIRE', counter, 1000)
try('PTTL', counter)
try('SELECT', ARGV[2])
if #failed == 0 and redis.call('EXISTS', counter) == 0 then
  return {'', "the client's options say database " .. ARGV[2] .. ', and its connections use another'}
end
try('DEL', counter)
try('ZADD', waiters, 'XX', 1, ARGV[1]) -- creates nothing that would be left if ZREM is forbidden
try('ZSCORE', waiters, ARGV[1])
try('ZRANK', waiters, ARGV[1])
try('ZRANGE', waiters, 0, 0)
try('ZREM', waiters, ARGV[1])
try('ZPOPMIN', waiters)
try('PUBLISH', ARGV[1], '')
return failed
