-- take_away marks or ends the caller's lease, as break.lua says, and returns the answer. A mark that
-- is there already stays.
local function take_away()
  local line, at_once, breach = owner .. ' ' .. ARGV[3], ARGV[4] ~= '', ARGV[5]
  local lease = redis.pcall('GET', KEYS[1]) -- an error if somebody has put something else there
  local first = type(lease) == 'string' and string.match(lease, '^[^\n]*')
  if first ~= line and first ~= '!' .. line then
    return {GONE}
  end
  if at_once then
    redis.call('DEL', KEYS[1])
    return {GRANTED, ARGV[3]}
  end
  if first == line then
    local label = string.match(lease, '^[^\n]*\n([^\n]*)') or ''
    redis.call('SET', KEYS[1], '!' .. line .. '\n' .. label .. '\n' .. breach, 'KEEPTTL')
  end
  return {HELD, redis.call('PTTL', KEYS[1]), 0}
end
