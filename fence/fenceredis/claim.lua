-- A claim, which every script of this package begins with. As a script is executed as a whole, the claim and what
-- follows it are one step.
--
-- KEYS[1]  mark   the highest token that the resource has seen, in decimal, without sign or zeros in front; never expires
-- ARGV[1]  token  that claims it, likewise
--
-- Tokens are compared as text, the longer one being the larger: Lua's numbers are exact up to 2^53 only. What is no token
-- is not overwritten: it may be somebody's data, under a key that was given for the mark's by mistake.
--
-- The block keeps its names from what follows.
do
  local mark, token = redis.call('GET', KEYS[1]), ARGV[1]
  if mark then
    local largest = '9223372036854775807'
    if not string.match(mark, '^[1-9]%d*$') or #mark > #largest or #mark == #largest and mark > largest then
      return redis.error_reply('LOCKERFENCE no token')
    end
    if #mark > #token or #mark == #token and mark > token then
      return redis.error_reply('LOCKERFENCE stale ' .. mark)
    end
  end
  if mark ~= token then
    redis.call('SET', KEYS[1], token)
  else
    redis.call('PERSIST', KEYS[1]) -- somebody may have put an expiry on it
  end
end
