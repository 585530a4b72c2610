package redisbackend_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fencedlock/locker"
	_ "github.com/fencedlock/locker/redisbackend"
)

// go-redis has one logger for the whole program. A program that doesn't want its lines on standard
// error turns it off before it opens a Locker.
func Example_quiet() {
	logging.Disable()
	l, err := locker.Open(context.Background(), "redis://redis.example:6379/0?prefix=billing:")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}
