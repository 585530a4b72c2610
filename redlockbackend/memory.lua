-- What a server remembers of itself, and when that is enough to take part.
--
-- A majority excludes others only as long as its servers remember whom they have granted what. One that has lost data
-- could grant a lock again that somebody holds. So it grants nothing until all leases must be over that it may have
-- forgotten: for the longest TTL. KEYS[1] tells:
--
-- RUN    the process that wrote it. After a restart there is another, which may have loaded an old snapshot, or a copy
--        of another server's data
-- SINCE  when, in microseconds since 1970. Without KEYS[1] all may be lost: an empty restart, FLUSHALL
-- MAX    the longest TTL, in milliseconds. All who use the server must agree on it

-- now is the server's clock, one reading a script, in microseconds since 1970. Lua counts in doubles, which hold
-- integers exactly up to 2^53: as microseconds that is the year 2255. Numbers are written by text, as Lua itself would
-- write 1.795e+15.
local reading
local function now()
  if not reading then
    local time = redis.call('TIME')
    reading = time[1] * 1000000 + time[2]
  end
  return reading
end

local function text(n) return string.format('%.0f', n) end

-- since is when the present memory began; what came before may be forgotten.
local since = 0

-- remembered returns RUN, SINCE and MAX, or nothing.
local function remembered()
  local memory = redis.pcall('GET', KEYS[1])
  return string.match(type(memory) == 'string' and memory or '', '^(%x+) (%d+) (%d+)$')
end

-- forgetful returns nil if the server remembers all that it must, or why not. It finds a loss and writes down that the
-- wait has begun. A clock that was set back behind SINCE is a loss too: nobody knows when the wait is over by it.
local function forgetful()
  local run, began, max = remembered()
  local info = redis.call('INFO', 'server')
  if not run or not string.find(info, 'run_id:' .. run .. '\r', 1, true) or tonumber(began) > now() then
    run, began, max = string.match(info, 'run_id:(%x+)'), text(now()), max or ARGV[1]
    redis.call('SET', KEYS[1], run .. ' ' .. began .. ' ' .. max)
  end
  if max ~= ARGV[1] then
    return 'differs ' .. max
  end
  since = tonumber(began)
  local left = since + max * 1000 - now()
  if left > 0 then
    return 'waits ' .. text(math.ceil(left / 1000))
  end
end
