-- The beginning of a caller's script, between the claim and the script: it removes the mark from KEYS
-- and the token from ARGV.
local KEYS, ARGV = (function()
  local function rest(list)
    local others = {}
    for i = 2, #list do others[i - 1] = list[i] end
    return others
  end
  return rest(KEYS), rest(ARGV)
end)();
