-- The single command of Do. It follows a claim.
--
-- KEYS[2]     the command's key
-- ARGV[2], …  the command, and its arguments after the key; Do limits their number to what unpack takes
--
-- Lua's numbers are exact up to 2^53. A larger integer in the command's reply may be changed here, so
-- it is not returned. BITFIELD replies with a list of integers.
local reply = redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))
local list = type(reply) == 'table' and reply or {reply}
for i = 1, #list do
  if type(list[i]) == 'number' and math.abs(list[i]) >= 9007199254740992 then
    return redis.error_reply('LOCKERFENCE inexact')
  end
end
return reply
