package needs

var clients []*redis.Client
