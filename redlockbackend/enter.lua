-- enter is asked when a Locker is opened: does this server take part? The answer is one text:
--
-- ready        it does
-- waits LEFT   it will in LEFT milliseconds, see memory.lua
-- differs MAX  its longest TTL is MAX
-- new          it has no memory; only with 'look', which changes nothing
--
-- ARGV[3]  'look'    answer new instead of beginning to wait
--          'waive'   take part at once if there is no memory: an operator says that there never was one
--          ''        as the other scripts do

-- include args.lua
-- include memory.lua

if ARGV[3] ~= '' and redis.call('EXISTS', KEYS[1]) == 0 then
  if ARGV[3] == 'look' then return 'new' end
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  redis.call('SET', KEYS[1], run .. ' 0 ' .. ARGV[1])
end
return forgetful() or 'ready'
