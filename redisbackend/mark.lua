-- marked returns the breach of a value of the lock's key in which an operator has marked the
-- caller's lease, or nil.
local function marked(lease)
  if type(lease) ~= 'string' or string.sub(lease, 1, #owner + 2) ~= '!' .. owner .. ' ' then return nil end
  return string.match(lease, '^[^\n]*\n[^\n]*\n([^\n]*)') or ''
end
