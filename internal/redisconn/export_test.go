package redisconn

// Retries is how often a connection of p begins a call again.
func Retries(p *Pool) int {
	c := newPooledConn(p.options)
	defer func() { _ = c.client.Close() }()
	return c.client.Options().MaxRetries
}
