package needs

var client redis.UniversalClient

// yours is a logger of go-redis.
var yours interface {
	Printf(ctx context.Context, format string, v ...any)
}
