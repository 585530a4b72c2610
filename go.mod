module github.com/fencedlock/locker

go 1.25.0
