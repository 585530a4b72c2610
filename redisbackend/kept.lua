-- How long the last token of a name is kept.
--
-- A name needs it for as long as the server's clock may show an earlier time than the token. The
-- key lives, by the same clock, for an hour after the lease, or for an hour after the clock has
-- passed the token, if that is later. So names that are used once leave nothing for long, and
-- tokens survive a clock that is set back by up to an hour. Of a longer lease only an hour counts:
-- at its end the clock has passed the token by that already.
local function kept(lease) return math.min(lease, hour) + hour end

-- keep_token gives the last token the time that a renewal of a lease asks for, and a minute more,
-- so that only one renewal a minute has to set it. It doesn't go beyond what the longest lease
-- needs.
local function keep_token(key, lease)
  if redis.call('PTTL', key) < kept(lease) then
    redis.call('PEXPIRE', key, math.min(kept(lease) + minute, 2 * hour))
  end
end
