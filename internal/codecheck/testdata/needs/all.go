package needs

var (
	ctx   context.Context
	l     locker.Locker
	lease locker.Lease
	t     *testing.T
)
