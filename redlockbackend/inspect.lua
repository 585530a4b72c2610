-- inspect reads what exists of locks, and writes nothing. It is asked about one lock, or makes one
-- step through all keys of the server.
--
-- ARGV[1]  db       the number of the database
-- ARGV[2]  waiters  how many to return of each lock
-- ARGV[3]  what     the lock's key; or the pattern of the keys to look for
-- ARGV[4]  cursor   of the step; '' for one lock
--
-- It answers {cursor, lock, …}, and of each lock {key, lease, pttl, waiting, place, ticket, …}.
-- lease is the value of the lock's key, false if there is none, and '' if the key is of another type.
-- What somebody else has written there may be very long, and is cut.
redis.call('SELECT', ARGV[1])

local function look(key)
  local lease = redis.pcall('GET', key)
  if type(lease) == 'table' then lease = '' end
  if lease then lease = string.sub(lease, 1, 1400) end
  local waiting = redis.pcall('ZCARD', key .. ':waiters')
  if type(waiting) == 'table' then
    if not string.find(waiting.err, 'WRONGTYPE', 1, true) then return waiting end -- a permission is missing
    waiting = 0 -- somebody has put something else there
  end
  local about = {key, lease, redis.call('PTTL', key), waiting}
  if waiting > 0 and ARGV[2] ~= '0' then
    for _, word in ipairs(redis.call('ZRANGE', key .. ':waiters', 0, ARGV[2] - 1, 'WITHSCORES')) do
      about[#about + 1] = word
    end
  end
  return about
end

if ARGV[4] == '' then
  local about = look(ARGV[3])
  return about.err and about or {'0', about}
end
local step = redis.call('SCAN', ARGV[4], 'MATCH', ARGV[3], 'COUNT', 500)
local answer, seen = {step[1]}, {}
for _, key in ipairs(step[2]) do
  local lock = string.gsub(key, ':waiters$', '')
  lock = string.match(lock, '^.*}$') or string.match(lock, '^.*}:slot:%w+$')
  if lock and not seen[lock] then
    seen[lock] = true
    local about = look(lock)
    if about.err then return about end
    answer[#answer + 1] = about
  end
end
return answer
