//go:build unix

package pg

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	"github.com/fencedlock/locker/integration/internal/itest"
)

// pgSmall is a server with TLS and little room, for tests that change it or use it up.
var pgSmall = itest.Lazily("postgres", startPgSmall)

const (
	smallConnections = 20
	smallLocks       = 10 * smallConnections // as the documentation of Postgres counts the places in its lock table
)

// pgCertificate is the small server's own, in PEM.
var pgCertificate string

func startPgSmall(ctx context.Context, image string) (*Service, error) {
	ports, err := itest.FreePorts(1)
	if err != nil {
		return nil, err
	}
	certificate, key, err := selfSigned()
	if err != nil {
		return nil, err
	}
	pgCertificate = certificate
	node, err := startPgNode(ctx, pgNodeConfig{
		image:  image,
		port:   ports[0],
		files:  map[string]string{"/server.crt": certificate, "/server.key.of.root": key},
		before: "install --owner=postgres --mode=600 /server.key.of.root /server.key",
		settings: []string{
			pgCounting, "max_connections=20", "max_locks_per_transaction=10",
			"ssl=on", "ssl_cert_file=/server.crt", "ssl_key_file=/server.key",
		},
	})
	if err != nil {
		return nil, err
	}
	s := &Service{nodes: []*pgNode{node}, URL: pgURL(pgUser, pgPassword, pgDatabase, ports[0])}
	if err := node.create(ctx); err != nil {
		return nil, err
	}
	return s, s.wait(ctx)
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned() (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "tests"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", public), text("PRIVATE KEY", secret), nil
}
