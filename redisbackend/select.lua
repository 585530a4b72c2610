-- What a script begins with if the client is a caller's. Other users of the client may have made this
-- connection select another database, and for them this changes nothing. The number of the database
-- is the last argument.
redis.call('SELECT', ARGV[#ARGV])

