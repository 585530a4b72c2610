-- What precedes a script of the caller's, which follows a claim: KEYS and ARGV without the mark and the token.
local KEYS, ARGV = (function()
  local function rest(list)
    local others = {}
    for i = 2, #list do others[i - 1] = list[i] end
    return others
  end
  return rest(KEYS), rest(ARGV)
end)()
