package redlockbackend

// stretch gives a goroutine the stack that go-redis needs, at once. Each server is asked in a new goroutine, and a stack
// that grows on the way down is copied several times, with all the frames that are on it by then.
//
//go:noinline
func stretch(i int) byte {
	var room [3500]byte // with what the runtime adds that makes 8 KB, where calls of go-redis end up
	return room[i]
}
