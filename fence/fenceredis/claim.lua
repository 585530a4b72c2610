-- A claim, which every script of this package begins with. As a script is carried out as a whole, the claim and what
-- follows it are one step.
--
-- KEYS[1]  mark   the highest token that the resource has seen, in decimal; never expires
-- ARGV[1]  token  that claims it
--
-- Tokens are compared as text, the longer one being the larger: Lua's numbers are exact up to 2^53 only. Neither has
-- a sign, or zeros in front.
local highest = redis.call('GET', KEYS[1])
local token = ARGV[1]
if highest and (#highest > #token or #highest == #token and highest > token) then
  return redis.error_reply('STALE ' .. highest)
end
if highest ~= token then
  redis.call('SET', KEYS[1], token)
end
