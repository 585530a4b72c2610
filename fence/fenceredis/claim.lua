-- A claim. Every script of this package begins with it. Redis executes a script as a whole, so the
-- claim and the commands that follow it are one step.
--
-- KEYS[1]  mark   the highest token that the resource has seen, in decimal, without a sign or leading zeros; never expires
-- ARGV[1]  token  the token that claims the resource, in the same form
--
-- Tokens are compared as text, and the longer text is the larger token: Lua's numbers are exact only
-- up to 2^53. A value that is no token is not overwritten: it may be data, if the key of the data was
-- given by mistake as the key of the mark.
--
-- The block hides its names from the script that follows.
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
