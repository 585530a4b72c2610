-- acquire takes a free lock for an owner, and raises the counter to the token that the owner
-- proposes. It is the only script that creates. It answers
--
-- raised          the lock is the owner's, and the counter was raised to its token
-- granted C MAX   the lock is the owner's, but the counter is C, so the token was too small, or larger than MAX
-- held LEFT RANK OWNER
--                 another owner has it, for LEFT milliseconds if nobody renews it; RANK waiters came before
-- gone            it was released already; this request was delayed
--
-- A repeated request of an owner is never answered with raised, whether the lock exists, or has
-- expired and is created again (the counter is not below its token then). So it can't be counted
-- for a token. And a lock that was created again says TOKEN 0, so no lease can be renewed by it.

-- include begin.lua

-- The quick way, for locks that nobody has and nobody waits for, on a server that remembers all that
-- it must. It does what the rest of this script does in that case, but without functions, because to
-- define them costs as much as the commands. The first lock for which that is not so is left to the
-- rest, and so are the locks after it. The numbers are those of token.lua.
local max, note = ARGV[1], redis.pcall('GET', KEYS[1])
local history, began = string.match(type(note) == 'string' and note or '',
  '^(%x+) ' .. ARGV[3] .. ' (%d+) ' .. max .. '$')
local replication = history and redis.call('INFO', 'replication') or ''
local remembers = false -- the server remembers all that it must
if string.find(replication, 'role:master', 1, true)
  and string.find(replication, 'master_replid:' .. history, 1, true) then
  local time, minute = redis.call('TIME'), 60000000 -- microseconds
  local clock = time[1] * 1000000 + time[2]
  remembers = began + max * 1000 <= clock
  for i = 2, remembers and #KEYS or 1 do
    local a = 5 * i - 6 -- where the arguments of the item begin, as in args.lua
    local lock, owner, token = KEYS[i], ARGV[a], tonumber(ARGV[a + 1])
    if redis.call('EXISTS', lock, lock .. ':waiters', lock .. ':tomb:' .. owner) > 0
      or token <= began + minute or token > clock + minute then break end
    local last = tonumber(redis.pcall('GET', lock .. ':token') or nil)
    if token <= (last or math.floor(clock / 3600000000 - 24) * 3600000000) then break end
    redis.call('SET', lock .. ':token', ARGV[a + 1], 'PX', 26 * 3600000)
    redis.call('SET', lock, owner .. ' ' .. ARGV[a + 1] .. ARGV[a + 4], 'PX', ARGV[a + 2])
    answers[i - 1], first = 'raised', i + 1
  end
  if first > #KEYS then return answers end
end

-- include args.lua
-- include memory.lua
-- include token.lua
-- include waiters.lua

local why
if remembers then since = tonumber(began) else why = forgetful() end
if why then return why end

return each(function(lock, owner, token, ttl, ticket, said)
  if redis.call('EXISTS', lock, lock .. ':waiters', lock .. ':tomb:' .. owner) > 0 then
    if redis.call('EXISTS', lock .. ':tomb:' .. owner) == 1 then
      return 'gone'
    end
    local current = holder(lock)
    if current == owner then
      redis.call('PEXPIRE', lock, ttl)
      return 'granted ' .. text(counter(lock)) .. ' ' .. text(limit())
    end
    if current and not (current == me and ticket ~= '') then
      local rank = place(lock, ttl, ticket, said)
      return 'held ' .. redis.call('PTTL', lock) .. ' ' .. rank .. ' ' .. current
    end
    leave(lock, ticket, said)
    alert(lock, ttl)
  end
  local short = raise(lock, owner, token, said, 'PX', ttl)
  if not short then
    return 'raised'
  end
  redis.call('SET', lock, owner .. ' 0' .. said, 'PX', ttl)
  return 'granted ' .. short
end)
