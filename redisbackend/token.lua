-- Fencing tokens, and the clock they come from.

-- now is the server's clock, read once a script: microseconds since 1970, as text and as a number.
-- Lua counts in doubles, which hold integers exactly up to 2^53: as microseconds that is 285 years,
-- so the number is exact until the year 2255.
local text, number
local function now()
  if not text then
    local time = redis.call('TIME')
    text = time[1] .. string.sub('00000' .. time[2], -6)
    number = tonumber(text)
  end
  return text, number
end

local function millis()
  local _, micros = now()
  return math.floor(micros / 1000)
end

local century = 876000 * hour -- longer than needed, and far below the longest expiry that Redis accepts

-- mint makes the next token, for a lease of the given length: the clock, or the last token + 1 if
-- the clock has not passed that. The clock keeps tokens rising when the data is lost, the last
-- token when the clock is set back.
--
-- Tokens stay text, because Lua would write 1.795e+15. The last token may be any int64, beyond what
-- Lua counts exactly. The comparison can't go wrong, because rounding doesn't move it past a clock
-- below 2^53, and it is Redis that adds 1. At the end of int64 INCR fails, and with it the
-- acquisition; the last token is unchanged then, and nothing else has happened.
local function mint(lease)
  local token, micros = now()
  local last = redis.call('SET', KEYS[2], token, 'PX', kept(lease), 'GET')
  local ahead = last and (tonumber(last) or 0) - micros
  if ahead and ahead >= 0 then
    redis.call('SET', KEYS[2], last, 'PX', kept(lease) + math.min(math.floor(ahead / 1000), century))
    redis.call('INCR', KEYS[2])
    return redis.call('GET', KEYS[2])
  end
  return token
end

-- take makes the caller the holder, with a new token, which it returns.
local function take()
  local token = mint(ttl)
  redis.call('SET', KEYS[1], owner .. ' ' .. token .. said, 'PX', ttl)
  return token
end
