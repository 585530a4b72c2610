-- enter is asked when a Locker is opened: does this server take part? The answer is one text:
--
-- ready        it does
-- waits LEFT   it will in LEFT milliseconds, see memory.lua
-- differs MAX  its longest TTL is MAX
-- new          it has no memory; only with 'look'
-- known        it has one; only with 'look'
--
-- ARGV[4]  'look'    change nothing, because a Locker with another longest TTL will be refused: answer new,
--                    known or differs
--          'waive'   take part at once if there is no memory: an operator says that there never was one
--          ''        do what the other scripts do

-- include begin.lua
-- include args.lua
-- include memory.lua

if ARGV[4] == 'look' then
  local _, _, max = remembered()
  if max and max ~= ARGV[1] then return 'differs ' .. max end
  return redis.call('EXISTS', KEYS[1]) == 0 and 'new' or 'known'
end
if ARGV[4] == 'waive' and redis.call('EXISTS', KEYS[1]) == 0 then
  remember(present(), '0', ARGV[1])
end
return forgetful() or 'ready'
