package redisbackend

import "github.com/fencedlock/locker/internal/redisconn"

// lockKey is the key of a lock, or of a slot. The other keys are made from it.
func lockKey(prefix, name string, slot int) string { return redisconn.SlotKey(prefix, name, slot) }

// keysOf lists the keys that scripts about one acquisition get, in the order of args.lua.
func keysOf(lock, owner string) [5]string {
	const token, queue, waiters, tomb = ":token", ":queue", ":waiters", ":tomb:"
	all := lock + token + lock + queue + lock + waiters + lock + tomb + owner // one allocation for all
	keys := [...]string{lock, "", "", "", ""}
	for i, suffix := range [...]int{len(token), len(queue), len(waiters), len(tomb) + len(owner)} {
		keys[i+1], all = all[:len(lock)+suffix], all[len(lock)+suffix:]
	}
	return keys
}

// channelOf is where a Locker listens for grants.
func channelOf(prefix, id string) string { return prefix + "grants:" + id }

// permissionsFor says what a user of the locks under a prefix needs.
func permissionsFor(prefix string) redisconn.Permissions {
	return redisconn.Permissions{Keys: prefix + "*", Channels: channelOf(prefix, "*"), Doc: "docs/redis.md"}
}
