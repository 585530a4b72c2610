module github.com/fencedlock/locker/adapters/migrate

go 1.25.11

require github.com/fencedlock/locker v0.0.0

require github.com/golang-migrate/migrate/v4 v4.20.1

replace github.com/fencedlock/locker => ../../
