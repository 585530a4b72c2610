-- inspect reads what exists of a lock. It writes nothing and hands nothing on, so a server executes
-- it by EVALSHA_RO, for users who may only read.
--
-- KEYS[1]  lock
-- KEYS[2]  queue    not given in a Cluster, where nobody queues and the keys of a slot may be apart
-- KEYS[3]  waiters  the same
-- ARGV[1]  how many waiters to return
--
-- It answers {lease, pttl, waiting, owner, label, …}. lease is the value of the lock's key, false if
-- there is none, and '' if the key is of another type. waiting is -1 if nobody queues here. What
-- somebody else has written there may be very long, and is cut.
local lease = redis.pcall('GET', KEYS[1])
if type(lease) == 'table' then lease = '' end
if lease then lease = string.sub(lease, 1, 1400) end
local answer = {lease, redis.call('PTTL', KEYS[1]), -1}
if KEYS[2] then
  local waiting = redis.pcall('ZCARD', KEYS[2]) -- an error if somebody has put something else there
  answer[3] = type(waiting) == 'number' and waiting or 0
  if answer[3] > 0 and ARGV[1] ~= '0' then
    local owners = redis.call('ZRANGE', KEYS[2], 0, ARGV[1] - 1)
    for from = 1, #owners, 1000 do -- Lua passes no more than some thousand arguments to a function
      local places = redis.pcall('HMGET', KEYS[3], unpack(owners, from, math.min(from + 999, #owners)))
      for i = from, math.min(from + 999, #owners) do
        local place = not places.err and places[i - from + 1] or ''
        answer[#answer + 1] = string.sub(owners[i], 1, 300)
        answer[#answer + 1] = string.sub(string.match(place, '\n([^\n]*)') or '', 1, 300)
      end
    end
  end
end
return answer
