package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker"
	"github.com/fencedlock/locker/cmd/locker/internal/ui"
	"github.com/fencedlock/locker/membackend"
)

// pipes is a network of this process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A break that is under way when ui is ended has its effect, and its line, however long the service takes.
func TestTheEndOfUIWaitsForABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asLongAsABreak = 10 * time.Second
		answered := false
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(asLongAsABreak)
			answered = true
		})}
		network := make(pipes)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, server, func() error { return server.Serve(network) }) }()
		browser, conn := net.Pipe()
		network <- conn
		go func() { _, _ = io.Copy(io.Discard, browser) }()
		_, _ = io.WriteString(browser, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || !answered {
			t.Errorf("ui ended with %v, and the break was answered: %v, want true", err, answered)
		}
		time.Sleep(asLongAsABreak)
	})
}

// A page that can't be served any more is no mistake of the user's.
func TestListenerThatFails(t *testing.T) {
	err := serve(t.Context(), new(http.Server), func() error { return net.ErrClosed })
	wantCode(t, err, exitService)
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("the error is %v, want the listener's", err)
	}
}

// A page about PREFIX tells nothing of other locks.
func TestPageOfAPrefix(t *testing.T) {
	held(t, func(t *testing.T, _ *membackend.Server, l locker.Locker, _ locker.Lease) {
		for prefix, want := range map[string]bool{"": true, "dep": true, "deploy": true, "invoices/": false} {
			lock, ok, err := (&uiOptions{}).page(l, prefix, "", nil).Inspect(t.Context(), "deploy", 0)
			if ok != want || (err == nil) != want || strings.Contains(string(lock), "alice") != want {
				t.Errorf("the page of %q shows %s, %v, %v", prefix, lock, ok, err)
			}
		}
	})
}

// Certificate and key are read before anybody is told where the page is.
func TestCertificateOfUI(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	o := uiOptions{listen: "127.0.0.1:0", every: time.Second, cert: filepath.Join(t.TempDir(), "cert"), key: filepath.Join(t.TempDir(), "key")}
	for path, block := range map[string]*pem.Block{o.cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, o.key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.check(); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		t.Fatal(err)
	}
	page := o.server(t.Context(), http.NotFoundHandler())
	defer page.Close()
	go func() { _ = listenAt(page, listener) }()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is compared
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0]; string(got.Raw) != string(pair.Certificate[0]) {
		t.Errorf("the page has the certificate of %v", got.Subject)
	}
}

// A look outlasts its viewers, and not the page.
func TestLookEndsWithThePage(t *testing.T) {
	page, end := context.WithCancel(t.Context())
	list := endingWith(page, func(ctx context.Context) ([]ui.Lock, string, error) {
		end()
		<-ctx.Done()
		return nil, "", ctx.Err()
	})
	if _, _, err := list(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("the look ends with %v, want %v", err, context.Canceled)
	}
}
