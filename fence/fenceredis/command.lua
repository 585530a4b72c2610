-- The one command of Do, which follows a claim.
--
-- KEYS[2]     its key
-- ARGV[2], …  the command, and what follows the key; Do sees to it that unpack can take them
--
-- Lua's numbers are exact up to 2^53. From there on an integer that the command replied may be another one here, so it is
-- not passed on. Lists with integers are what BITFIELD replies.
local reply = redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))
local list = type(reply) == 'table' and reply or {reply}
for i = 1, #list do
  if type(list[i]) == 'number' and math.abs(list[i]) >= 9007199254740992 then
    return redis.error_reply('LOCKERFENCE inexact')
  end
end
return reply
