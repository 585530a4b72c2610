-- probe runs each command that the other scripts run, once and without effect. It returns the
-- commands that fail, each followed by its error. An empty name is followed by the error that this
-- connection uses another database. Whichever command is missing, nothing remains: what is created
-- gets an expiry at once, or isn't created (XX).
--
-- KEYS as in args.lua, of a name that nobody uses; ARGV[4]: the channel, or ''; ARGV[6]: the database that
-- the other scripts select, if they do.
local failed = {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = name
    failed[#failed + 1] = reply.err
  end
end
try('TIME')
try('EXISTS', KEYS[5])
try('SET', KEYS[2], '1', 'PX', 1000)
if ARGV[6] then
  try('SELECT', ARGV[6])
  if #failed == 0 and redis.call('EXISTS', KEYS[2]) == 0 then
    return {'', "the client's options say database " .. ARGV[6] .. ', and its connections use another'}
  end
end
try('SET', KEYS[2], '1', 'KEEPTTL')
try('GET', KEYS[2])
try('INCR', KEYS[2])
try('PTTL', KEYS[2])
try('PEXPIRE', KEYS[2], 1000)
try('DEL', KEYS[2])
try('ZADD', KEYS[3], 'XX', 1, ARGV[1])
try('ZRANGE', KEYS[3], 0, 0)
try('ZRANK', KEYS[3], ARGV[1])
try('ZCARD', KEYS[3])
try('ZREM', KEYS[3], ARGV[1])
try('HSET', KEYS[4], ARGV[1], '1')
try('PEXPIRE', KEYS[4], 1000)
try('HGET', KEYS[4], ARGV[1])
try('HMGET', KEYS[4], ARGV[1])
try('HDEL', KEYS[4], ARGV[1])
if ARGV[4] ~= '' then
  try('PUBSUB', 'NUMSUB', ARGV[4])
  try('PUBLISH', ARGV[4], '')
end
return failed
