package pgsession

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// network has names and addresses, and an answer of each.
type network struct {
	names map[string][]string // no addresses: nobody answers for the name
	deaf  bool                // who asks for a name that nobody answers for has to wait for longer than it wants
	hosts map[string]func(ctx context.Context, theirs net.Conn) error
}

func (n *network) resolve(ctx context.Context, name string) ([]string, error) {
	if len(n.names[name]) > 0 {
		return n.names[name], nil
	}
	<-ctx.Done()
	if n.deaf {
		time.Sleep(time.Hour)
	}
	return nil, &net.DNSError{UnwrapErr: ctx.Err(), Err: "timeout", Name: name, IsTimeout: true}
}

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	if err := n.hosts[addr](ctx, theirs); err != nil {
		return nil, err
	}
	return mine, nil
}

// drops is an address that is cut off.
func drops(ctx context.Context, _ net.Conn) error {
	<-ctx.Done()
	return ctx.Err()
}

// saysNothing accepts connections.
func saysNothing(context.Context, net.Conn) error { return nil }

// refuses is an address that refuses connections at once.
func refuses(context.Context, net.Conn) error { return syscall.ECONNREFUSED }

// serves is a server without TLS, which takes writes.
func serves(_ context.Context, theirs net.Conn) error {
	go func() {
		defer theirs.Close()
		backend := pgproto3.NewBackend(theirs, theirs)
		hello, err := backend.ReceiveStartupMessage()
		if _, wantsTLS := hello.(*pgproto3.SSLRequest); wantsTLS {
			if _, err = theirs.Write([]byte{'N'}); err == nil {
				_, err = backend.ReceiveStartupMessage()
			}
		}
		backend.Send(&pgproto3.AuthenticationOk{})
		backend.Send(&pgproto3.BackendKeyData{ProcessID: 7, SecretKey: []byte{1, 2, 3, 4}})
		for err == nil {
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if err = backend.Flush(); err == nil {
				_, err = backend.Receive()
			}
			backend.Send(&pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, 1)})
			backend.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("off")}})
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SHOW")})
		}
	}()
	return nil
}

// An address that is cut off, or that accepts connections and says nothing, doesn't keep the others from
// being asked in time; nor does a name that isn't resolved.
func TestEachAddressHasItsPartOfTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		url   string
		names map[string][]string
		hosts map[string]func(context.Context, net.Conn) error
		deaf  bool
		after time.Duration
	}{
		"one name, the first address is cut off": {
			url: "h/d?sslmode=disable", names: map[string][]string{"h": {"10.0.0.1", "10.0.0.2"}}, after: 5 * time.Second / 2,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.1:5432": drops, "10.0.0.2:5432": serves},
		},
		"one name, the first address says nothing": {
			url: "h/d?sslmode=disable", names: map[string][]string{"h": {"10.0.0.1", "10.0.0.2"}}, after: 5 * time.Second / 2,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.1:5432": saysNothing, "10.0.0.2:5432": serves},
		},
		"one name, the first of many addresses is cut off": {
			url: "h/d?sslmode=disable", names: map[string][]string{"h": {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}}, after: leastShare,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.1:5432": drops, "10.0.0.2:5432": serves},
		},
		"one name with two addresses, and TLS is preferred": { // so each address is asked twice
			url: "h/d?sslmode=prefer", names: map[string][]string{"h": {"10.0.0.1", "10.0.0.2"}}, after: 5 * time.Second / 2,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.1:5432": drops, "10.0.0.2:5432": serves},
		},
		"the same with two ports": {
			url: "h:1,h:2/d?sslmode=prefer", names: map[string][]string{"h": {"10.0.0.1", "10.0.0.2"}}, after: 15 * time.Second / 2,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.1:1": drops, "10.0.0.2:1": saysNothing, "10.0.0.1:2": drops, "10.0.0.2:2": serves},
		},
		"two names, one of many addresses that are cut off": {
			url: "h1,h2/d?sslmode=disable", names: map[string][]string{"h1": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "h2": {"10.0.0.4"}}, after: 15 * time.Second / 2,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.1:5432": drops, "10.0.0.2:5432": drops, "10.0.0.3:5432": saysNothing, "10.0.0.4:5432": serves},
		},
		"one of three addresses refuses at once, and leaves its part to the others": {
			url: "h/d?sslmode=prefer", names: map[string][]string{"h": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
			hosts: map[string]func(context.Context, net.Conn) error{
				"10.0.0.1:5432": refuses, "10.0.0.2:5432": drops, "10.0.0.3:5432": serves,
			},
			after: 5 * time.Second / 2,
		},
		"two names, one isn't resolved": {
			url: "h1,h2/d?sslmode=prefer", names: map[string][]string{"h2": {"10.0.0.2"}}, after: 5 * time.Second,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.2:5432": serves},
		},
		"the same, and who resolves it doesn't know when to stop": {
			url: "h1,h2/d?sslmode=prefer", names: map[string][]string{"h2": {"10.0.0.2"}}, after: 5 * time.Second, deaf: true,
			hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.2:5432": serves},
		},
		"a directory": {
			url:   "/d?host=/run/h&sslmode=prefer",
			hosts: map[string]func(context.Context, net.Conn) error{"/run/h/.s.PGSQL.5432": serves},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, err := pgxpool.ParseConfig("postgres://joe@" + c.url)
				if err != nil {
					t.Fatal(err)
				}
				n := &network{c.names, c.deaf, c.hosts}
				config.ConnConfig.LookupFunc, config.ConnConfig.DialFunc = n.resolve, n.dial
				ctx, cancel := context.WithTimeout(t.Context(), ConnectLimit(config))
				defer cancel()
				began := time.Now()
				made, err := Dial(ctx, config)
				if after := time.Since(began); err != nil || after != c.after {
					t.Errorf("Dial = %v after %v, want a connection after %v", err, after, c.after)
				}
				if err == nil {
					made.Close()
				}
				time.Sleep(time.Hour) // until all look-ups have returned
			})
		})
	}
}

// A host that isn't reached is named, by its name or its address, and the caller's time isn't meant.
func TestHostsThatAreNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, err := pgxpool.ParseConfig("postgres://joe@h1,h2/d?sslmode=prefer")
		if err != nil {
			t.Fatal(err)
		}
		n := &network{names: map[string][]string{"h2": {"10.0.0.2"}}, hosts: map[string]func(context.Context, net.Conn) error{"10.0.0.2:5432": drops}}
		config.ConnConfig.LookupFunc, config.ConnConfig.DialFunc = n.resolve, n.dial
		ctx, cancel := context.WithTimeout(t.Context(), ConnectLimit(config))
		defer cancel()
		_, err = Dial(ctx, config)
		if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "h1") || !strings.Contains(err.Error(), "10.0.0.2:5432") {
			t.Errorf("Dial = %v, want an error that names both, and isn't a context's", err)
		}
	})
}

// AfterConnect may connect again with the configuration of its connection, more than once.
func TestConfigurationOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, err := pgxpool.ParseConfig("postgres://joe@h1,h2/d?sslmode=prefer")
		if err != nil {
			t.Fatal(err)
		}
		n := &network{names: map[string][]string{"h1": {"10.0.0.1"}, "h2": {"10.0.0.2"}}}
		n.hosts = map[string]func(context.Context, net.Conn) error{"10.0.0.1:5432": refuses, "10.0.0.2:5432": serves}
		config.ConnConfig.LookupFunc, config.ConnConfig.DialFunc = n.resolve, n.dial
		config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
			for range 2 {
				again, err := pgx.ConnectConfig(ctx, c.Config())
				if err != nil {
					return err
				}
				_ = again.Close(ctx)
			}
			return nil
		}
		made, err := Dial(t.Context(), config)
		if err != nil {
			t.Fatalf("Dial = %v, want nil", err)
		}
		made.Close()
	})
}

// The server takes no connection without TLS, and no password with it: the other hosts aren't asked, although
// the first error says something else.
func TestWrongPasswordIsTriedOnce(t *testing.T) {
	for mode, codes := range map[string][]string{
		"disable": {codePassword},
		"allow":   {"28000", codePassword},
	} {
		synctest.Test(t, func(t *testing.T) {
			config, err := pgxpool.ParseConfig("postgres://joe@h1,h2/d?sslmode=" + mode)
			if err != nil {
				t.Fatal(err)
			}
			certificate := certified(t)
			asked := 0
			rejects := func(_ context.Context, theirs net.Conn) error {
				code := codes[asked%len(codes)]
				asked++
				go func() {
					defer theirs.Close()
					stream := theirs
					backend := pgproto3.NewBackend(stream, stream)
					first, err := backend.ReceiveStartupMessage()
					if _, asksTLS := first.(*pgproto3.SSLRequest); asksTLS {
						_, _ = stream.Write([]byte{'S'})
						stream = tls.Server(stream, certificate)
						backend = pgproto3.NewBackend(stream, stream)
						_, err = backend.ReceiveStartupMessage()
					}
					if err == nil {
						backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "no"})
						_ = backend.Flush()
					}
				}()
				return nil
			}
			n := &network{names: map[string][]string{"h1": {"10.0.0.1"}, "h2": {"10.0.0.2"}}}
			n.hosts = map[string]func(context.Context, net.Conn) error{"10.0.0.1:5432": rejects, "10.0.0.2:5432": rejects}
			config.ConnConfig.LookupFunc, config.ConnConfig.DialFunc = n.resolve, n.dial
			if _, err := Dial(t.Context(), config); !Says(err, codes...) || asked != len(codes) {
				t.Errorf("%s: Dial = %v after %d tries, want the server's error after %d", mode, err, asked, len(codes))
			}
		})
	}
}
