package redisconn_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/locker/internal/redisconn"
	"github.com/fencedlock/locker/internal/redisconn/redistest"
)

// probeDatabase is the answer of a probe on a connection that uses this database. The options say 3.
func probeDatabase(db string) string {
	if db == "3" {
		return "*0\r\n"
	}
	return "*2\r\n" + redistest.Bulk("") + redistest.Bulk("connections use database "+db)
}

// A program that shares a client may have had a connection select another database. That says nothing about
// the client's options, which new connections show.
func TestProbeJudgesNewConnection(t *testing.T) {
	selectOther := func(ctx context.Context, c interface {
		Do(context.Context, ...any) *redis.Cmd
	}) error {
		return c.Do(ctx, "select", 6).Err()
	}
	for _, c := range []struct {
		what      string
		onConnect func(context.Context, *redis.Conn) error
		answer    func(db string) string
		says      []string
	}{
		{"somebody has selected another", nil, probeDatabase, nil},
		{"each connection selects another", func(ctx context.Context, c *redis.Conn) error { return selectOther(ctx, c) },
			probeDatabase, []string{"use database 6"}},
		{"a new connection breaks", nil, func(db string) string {
			if db == "3" {
				return redistest.HangUp
			}
			return probeDatabase(db)
		}, []string{"use database 6", "new connection"}},
		{"a new connection lacks a permission", nil, func(db string) string {
			if db == "3" {
				return "*2\r\n$3\r\nGET\r\n$8\r\nNOPERM x\r\n"
			}
			return probeDatabase(db)
		}, []string{"use database 6", "+get"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			addr := redistest.Listen(t, func(conn net.Conn) {
				db := "0"
				redistest.Serve(conn, func(command []string) string {
					switch strings.ToLower(command[0]) {
					case "select":
						db = command[1]
					case "eval", "evalsha":
						return c.answer(db)
					}
					return redistest.Handshake(command)
				})
			})
			client := redis.NewClient(&redis.Options{Addr: addr, DB: 3, PoolSize: 1, ContextTimeoutEnabled: true, OnConnect: c.onConnect})
			defer client.Close()
			if err := selectOther(t.Context(), client); err != nil { // on its only connection
				t.Fatal(err)
			}
			script := redisconn.LoadScript(fstest.MapFS{"x.lua": {Data: []byte("return {}")}}, "x.lua")
			err := redisconn.NewConn(client, 0).Probe(t.Context(), permissions,
				func(whole bool) []any { return append(script.Begin(nil, whole), 0) })
			if (err == nil) != (len(c.says) == 0) {
				t.Fatalf("Probe = %v, want an error that speaks of %q", err, c.says)
			}
			for _, words := range c.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("Probe = %v, want that it speaks of %q", err, words)
				}
			}
		})
	}
}
