package pgsession

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"
)

// A TLS record whose first part has come when a reader's deadline passes goes on with the next
// read.
func TestTLSRecordInPieces(t *testing.T) {
	mine, theirs := net.Pipe()
	slow := &inPieces{Conn: theirs}
	peer := tls.Server(slow, certified(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1024)
		for {
			if _, err := peer.Read(b); err != nil { // the handshake, and then one call at a time
				return
			}
			slow.pause = firstLook / 3
			answer := new(server).answer(text(AdvisoryUnlock(1)))
			if _, err := peer.Write(answer); err != nil {
				return
			}
		}
	}()
	s := New(&Conn{stream: tls.Client(socket(mine), &tls.Config{InsecureSkipVerify: true})}, Settings{}) //nolint:gosec // not what is tested
	s.Start(func(error) {})
	for range 5 {
		c, err := s.CallFunctions(t.Context(), time.Minute, AdvisoryUnlock(1))
		if err != nil {
			t.Fatal(err)
		}
		wantResult(t, "a slow answer", c, 0, 1)
	}
	s.End(ErrClosed)
	_ = theirs.Close()
	<-done
}

func certified(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
}

// A peer that has stopped to read gets no goodbye of TLS either: nobody waits for that, and the mutex
// is free.
func TestEndOfTLSWhosePeerDoesNotRead(t *testing.T) {
	mine, theirs := net.Pipe()
	peer := tls.Server(theirs, certified(t))
	shaken := make(chan error, 1)
	go func() { shaken <- peer.Handshake() }()
	secured := tls.Client(socket(mine), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // not what is tested
	if err := secured.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	s := New(&Conn{stream: secured}, Settings{})
	s.Start(func(error) {})
	began := time.Now()
	s.End(errors.New("silent"))
	if err := s.Err(); !Ended(err) {
		t.Errorf("Err = %v, want ErrEnded", err)
	}
	if took := time.Since(began); took > 4*time.Second { // crypto/tls waits for five
		t.Errorf("the end has taken %v, want no time for the goodbye", took)
	}
	<-s.closed
	_ = theirs.Close()
}

// inPieces is a stream that is written to in small pieces, with pauses in between.
type inPieces struct {
	net.Conn
	pause time.Duration
}

func (c *inPieces) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = c.Conn.Write(b[n:min(n+7, len(b))])
		n += m
		time.Sleep(c.pause)
	}
	return n, err
}
