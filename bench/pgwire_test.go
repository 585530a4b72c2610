package main

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

func TestRequestsOnTheWire(t *testing.T) {
	var stream []byte
	for _, message := range []pgproto3.FrontendMessage{
		&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber, Parameters: map[string]string{"user": "QEF"}},
		&pgproto3.PasswordMessage{Password: "EEE"},
		&pgproto3.Query{String: "SELECT 'QQQ'"}, // a request
		&pgproto3.Parse{Query: "SELECT 1"},
		&pgproto3.Bind{},
		&pgproto3.Execute{}, // a request
		&pgproto3.Sync{},
		&pgproto3.FunctionCall{Function: 2882}, // a request
		&pgproto3.FunctionCall{Function: 1574}, // a request
		&pgproto3.Terminate{},
	} {
		var err error
		if stream, err = message.Encode(stream); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size <= len(stream); size++ {
		var p parser
		requests := int64(0)
		for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			requests += p.parse(rest[:min(size, len(rest))])
		}
		if requests != 4 {
			t.Errorf("%d requests in writes of %d bytes, want 4", requests, size)
		}
	}
}
