package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/ui"
)

const uiLong = `Serves a page that shows the locks that are held or waited for, while they change: who holds each,
who waits, and what has changed since the page was opened. PREFIX is how their names begin. Nothing
changes on the service, unless --allow-break is given.

The service is asked for the list once for all open pages, and not at all while no page is open:
every 2 seconds (--every), or less often if its answers take long.

Only this machine can reach the page, unless --listen says otherwise. Then a browser needs the token
in --token-file, and the page is served with TLS. --insecure leaves TLS to a proxy in front of it.

With --allow-break the page also takes locks and permits away from their holders, as locker break
does: it shows the holder and asks first, and writes the same line of JSON. It needs --token-file on
any address, because every user of this machine can reach the page.

It ends with Ctrl-C. The exit code is 128+n when signal n ended it. The others:

  116  usage: bad arguments, an address that isn't free, or a backend that can't tell
  117  the lock service failed, or the page can't be served any more`

const uiExample = `  locker ui
  locker ui --listen 127.0.0.1:8400 invoices/
  locker ui --listen :8321 --token-file token --cert cert.pem --key key.pem
  (umask 077; openssl rand -hex 16 > ~/alice)
  locker ui --token-file ~/alice --allow-break --audit breaks.log`

// uiWaiters are the waiters of one lock that the page shows.
const uiWaiters = 100

func newUI() *cobra.Command {
	o := uiOptions{}
	cmd := &cobra.Command{
		Use:               "ui [flags] [PREFIX]",
		Short:             "Show the locks in a browser while they change",
		Long:              uiLong,
		Example:           uiExample,
		Args:              oneName("PREFIX", false),
		ValidArgsFunction: noFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.backend, "backend", "", "`URL` of the lock service (default: LOCKER_URL, then files of this user)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8321", "`ADDRESS` of the page; port 0 is a free one")
	flags.DurationVar(&o.every, "every", 2*time.Second, "time from one list of the locks to the next")
	flags.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token that a browser needs to see locks")
	flags.StringVar(&o.cert, "cert", "", "`FILE` with the certificate for TLS, in PEM")
	flags.StringVar(&o.key, "key", "", "`FILE` with the certificate's private key, in PEM")
	flags.BoolVar(&o.insecure, "insecure", false, "serve other machines without TLS")
	flags.BoolVar(&o.allowBreak, "allow-break", false, "let those who know the token take locks away from their holders")
	flags.StringVar(&o.audit, "audit", "", "with --allow-break: append the lines of JSON to this `FILE`, too")
	mustComplete(cmd, "backend", nil)
	mustComplete(cmd, "listen", nil)
	return cmd
}

func (o *uiOptions) run(cmd *cobra.Command, prefix string) error {
	token, err := o.check()
	if err != nil {
		return err
	}
	surviveBrokenPipe() // a page that takes locks away writes lines of JSON on stderr
	if warning := o.warning(); warning != "" {
		flush(sayAside(cmd.ErrOrStderr(), warning))
	}
	ctx, stop := untilInterrupted()
	defer stop()
	var more []locker.Requirement
	if o.allowBreak {
		more = append(more, locker.BreakSeenAtRenewal)
	}
	l, err := openInspector(ctx, o.backend, cmd.Flags().Changed("backend"), more...)
	if err != nil {
		return errors.Join(interruption(ctx), err)
	}
	defer func() { _ = l.Close() }() // it has nothing to release
	audit, err := openAudit(cmd.ErrOrStderr(), o.audit)
	if err != nil {
		return err
	}
	defer audit.close()
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	page := o.page(l, prefix, token, audit)
	page.List = endingWith(ctx, page.List)
	server := o.server(ctx, ui.Handler(page))
	flush(sayAside(cmd.ErrOrStderr(), fmt.Sprintf("the locks of %s are on %s", l.Guarantees().Backend, o.url(listener.Addr()))))
	return serve(ctx, server, func() error { return listenAt(server, listener) })
}

// endingWith is list, which ends with the page as well. A look goes on when its viewers have left, and
// while the service is silent it must not delay the end of the page.
func endingWith(page context.Context, list listFunc) listFunc {
	return func(ctx context.Context) ([]ui.Lock, string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(page, cancel)()
		return list(ctx)
	}
}

type listFunc = func(ctx context.Context) ([]ui.Lock, string, error)

// server serves until ctx ends.
func (o *uiOptions) server(ctx context.Context, handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends the events
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          log.New(discard{}, "", 0), // what strangers send is no news
	}
	if o.cert != "" {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{o.pair}, MinVersion: tls.VersionTLS12}
	}
	return server
}

// listenAt returns when server is closed.
func listenAt(server *http.Server, listener net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

// page is what the page shows and does.
func (o *uiOptions) page(l locker.Locker, prefix, token string, audit *auditLog) ui.Config {
	c := ui.Config{
		Backend: l.Guarantees().Backend, Prefix: prefix, Every: o.every, Token: token, Hosts: o.hosts(),
		List: func(ctx context.Context) ([]ui.Lock, string, error) { return uiLocks(ctx, l, prefix) },
		Inspect: func(ctx context.Context, name string, slot int) (json.RawMessage, bool, error) {
			return uiLock(ctx, l, prefix, name, slot)
		},
	}
	if o.allowBreak {
		c.Breaker = uiBreaker{l: l, prefix: prefix, by: o.operator(), audit: audit}
	}
	return c
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// lastAnswers is how long the end of ui waits for what is under way. A look and a break have 5 s each, and then
// the audit gets its line.
const lastAnswers = 12 * time.Second

// serve returns when ctx has ended and no answer is under way, or when the server has failed.
func serve(ctx context.Context, server *http.Server, run func() error) error {
	failed := make(chan error, 1)
	go func() { failed <- run() }()
	select {
	case err := <-failed:
		return &exitError{code: exitService, err: fmt.Errorf("the page can't be served any more: %w", err)}
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	_ = server.Shutdown(late)
	<-failed //nolint:errcheck // it says that the server is closed
	return interruption(ctx)
}

// uiLocks lists for the page. The times to the ends of leases are left out, so that a lock whose lease is
// renewed isn't a lock that has changed. note says if locks are left out.
func uiLocks(ctx context.Context, l locker.Locker, prefix string) (locks []ui.Lock, note string, err error) {
	now := time.Now()
	all, note, err := onScreen(ctx, l, prefix)
	if err != nil {
		return nil, "", err
	}
	for _, s := range all {
		row := rowOf(l.Guarantees().Backend, s, now)
		if row.Holder != nil {
			row.Holder.ExpiresMS = 0
		}
		for i := range row.Partial {
			row.Partial[i].ExpiresMS = 0
		}
		text, _ := json.Marshal(row) // as in rowsNDJSON
		locks = append(locks, ui.Lock{Key: row.Key, JSON: text})
	}
	return locks, note, nil
}

// errNotShown is for a name that doesn't begin with PREFIX.
var errNotShown = errors.New("this page shows no lock of that name")

func uiLock(ctx context.Context, l locker.Locker, prefix, name string, slot int) (json.RawMessage, bool, error) {
	if !strings.HasPrefix(name, prefix) {
		return nil, false, errNotShown
	}
	s, err := locker.Inspect(ctx, l, name, locker.Look{Slot: slot, Waiters: uiWaiters})
	if err != nil {
		return nil, !errors.Is(err, locker.ErrName) && !errors.Is(err, locker.ErrOption), err
	}
	text, _ := json.Marshal(rowOf(l.Guarantees().Backend, s, time.Now()))
	return text, true, nil
}
