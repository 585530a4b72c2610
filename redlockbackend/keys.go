package redlockbackend

import "github.com/fencedlock/locker/internal/redisconn"

// lockKey is the key of a lock, or of a slot, and has the same form as in package redisbackend, so
// that tools can be shared. The scripts make the other keys from it.
func lockKey(prefix, name string, slot int) string { return redisconn.SlotKey(prefix, name, slot) }

// memoryKey is where a server remembers what it has to. It has no braces, so it is no lock's key.
func memoryKey(prefix string) string { return prefix + "memory" }

// channelOf is where a Locker hears that a lock is free.
func channelOf(prefix, id string) string { return prefix + "free:" + id }

// permissionsFor says what a user of the locks under a prefix needs.
func permissionsFor(prefix string) redisconn.Permissions {
	return redisconn.Permissions{Keys: prefix + "*", Channels: channelOf(prefix, "*"), Doc: "docs/redlock.md"}
}
