module github.com/fencedlock/locker/adapters/goose

go 1.25.0

require github.com/fencedlock/locker v0.0.0

replace github.com/fencedlock/locker => ../../
