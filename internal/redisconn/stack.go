package redisconn

// GrowStack gives a goroutine the stack that go-redis needs, at once. The backends make most calls
// in new goroutines. A stack that grows during a call is copied several times, with all the frames
// that are on it by then: that was a sixth of what acquire and release cost a client.
func GrowStack() { _ = grow(0) }

//go:noinline
func grow(i int) byte {
	var room [3500]byte // with what the runtime adds that makes 8 KB, where calls of go-redis end up
	return room[i]
}
