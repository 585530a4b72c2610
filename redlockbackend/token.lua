-- Fencing tokens. A server agrees to a token by raising the lock's counter to it. An owner that has
-- raised the counters of a majority to the same number has that token. Of two owners, the later
-- raised a counter of at least one server that the earlier had raised before, so its token is
-- larger.

-- A counter is never raised further than a minute beyond the server's clock. So one client whose
-- clock is far ahead can't drive tokens up, none comes near 2^53, and it is known how large a
-- counter may have been that is lost. A server takes part again when its clock is the longest TTL,
-- a minute unless set otherwise, beyond the moment of the loss: then the clock has passed all that
-- was lost. With a larger limit it would agree, long after it takes part again, to no token that
-- the others agree to.
--
-- It expires 26 hours after it was raised last, so that names that are used once leave nothing for
-- long. At that time the clock is at least 25 hours beyond it. So if there is no counter, nothing
-- is agreed to that isn't above the last full hour less 24: by the same clock, that is more than
-- any counter was that has expired. (A full hour, so that it doesn't change between the two
-- phases.)
local hour = 3600000000 -- microseconds
local ahead = 60000000 -- microseconds; maxAhead in quorum.go is the same
local kept = 26 * 3600000 -- milliseconds

local function limit() return now() + ahead end

-- counter returns the number that a token must exceed. A counter that is older than the memory of
-- this server may have been lost, or may come from a snapshot. So what a counter could be raised to
-- when that memory began counts as well.
local function counter(lock)
  local last = tonumber(redis.pcall('GET', lock .. ':token') or nil)
  return math.max(last or (math.floor(now() / hour) - 24) * hour, since + ahead)
end

-- raise raises the counter to token and notes that in the lock, whose expiry the options set. It
-- returns nil after that, or else what the counter is, and how far it may be raised.
local function raise(lock, owner, token, said, ...)
  local last = counter(lock)
  if token <= last or token > limit() then
    return text(last) .. ' ' .. text(limit())
  end
  redis.call('SET', lock .. ':token', text(token), 'PX', kept)
  redis.call('SET', lock, owner .. ' ' .. text(token) .. said, ...)
end
