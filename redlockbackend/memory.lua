-- What a server remembers about itself, and when that is enough to take part.
--
-- A majority excludes others only as long as its servers remember what they have granted. A server
-- that has lost data could grant a lock again that somebody holds. So it grants nothing until all
-- leases that it may have forgotten must be over: for the longest TTL. KEYS[1] is the server's note
-- of what its data belongs to:
--
-- HISTORY  the replication id of a master. A process draws a new one when it starts: after a restart, an old
--          snapshot may have been loaded. And when it was a replica and becomes a master: a replica continues with
--          the data of another server, which may be an older copy of its own. (What a snapshot says about replication
--          is used by a process that starts as a replica, and it draws a new one before it is a master. So nothing
--          else needs to tell one process from the next. Those are changeReplicationId in replication.c and
--          loadDataFromDisk in server.c, as read in Redis 6.2, 7.0 and 7.2, and in the development branches of Redis
--          after 7.4 and of Valkey after 8.0.)
-- DB       the number of the database. After SWAPDB the note of another database is found here
-- SINCE    since when, in microseconds since 1970. Without KEYS[1] all may be lost: an empty restart, FLUSHALL
-- MAX      the longest TTL, in milliseconds. All Lockers of the database must agree on it
local db = ARGV[3]

-- now is the server's clock, read once a script, in microseconds since 1970. Lua counts in doubles,
-- which hold integers exactly up to 2^53: as microseconds that is the year 2255. Numbers are
-- written by text, because Lua itself would write 1.795e+15.
local reading
local function now()
  if not reading then
    local time = redis.call('TIME')
    reading = time[1] * 1000000 + time[2]
  end
  return reading
end

local function text(n) return string.format('%.0f', n) end

-- since is when the present memory began. What was granted before may be forgotten.
local since = 0

-- remembered returns the beginning of the note, "HISTORY DB", then SINCE and MAX; or nothing.
-- MAX is nil for the note of another database, whose users may have agreed on another one.
local function remembered()
  local note = redis.pcall('GET', KEYS[1])
  local noted, began, max = string.match(type(note) == 'string' and note or '', '^(%x+ %d+) (%d+) (%d+)$')
  if noted and string.match(noted, '%d+$') ~= db then max = nil end
  return noted, began, max
end

-- present is the beginning of a note about what is here now. A replica's data is not its own, even
-- if it can be written to, so its note never fits.
local function present()
  local replication = redis.call('INFO', 'replication')
  local history = string.match(replication, 'master_replid:(%x+)')
  return history .. ' ' .. db, string.find(replication, 'role:master', 1, true)
end

-- remember writes the note. A note of this database that is found in another one must not count any
-- more when SWAPDB brings it back, because it knows nothing of what is granted from now on.
local function remember(identity, began, max)
  local other = 0
  while not redis.pcall('SELECT', other).err do
    if other ~= tonumber(db) then
      local old = remembered()
      if old and string.match(old, '%d+$') == db then redis.call('DEL', KEYS[1]) end
    end
    other = other + 1
  end
  redis.call('SELECT', db)
  redis.call('SET', KEYS[1], identity .. ' ' .. began .. ' ' .. max)
end

-- forgetful returns nil if the server remembers all that it must, or else why not. It notices a
-- loss, and writes that the wait has begun. A clock that was set back to before SINCE is a loss
-- too: by that clock nobody knows when the wait is over.
local function forgetful()
  local noted, began, max = remembered()
  local identity, master = present()
  if noted ~= identity or not master or tonumber(began) > now() then
    began, max = text(now()), max or ARGV[1]
    remember(identity, began, max)
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
