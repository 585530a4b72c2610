-- What the scripts begin with.

-- Other users of the client may have made this connection select another database. For them this
-- changes nothing.
redis.call('SELECT', ARGV[3])

-- answers are the answers to the items, in order. first is the number of the key of the first item
-- that each (args.lua) answers. The quick way of a script answers the items before that one.
local answers, first = {}, 2
