package zkbackend_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log"
	"os"

	"github.com/fencedlock/locker/zkbackend"
)

// New opens sessions of its own, as this user, below a node of its own.
func ExampleNew() {
	l, err := zkbackend.New(context.Background(), []string{"zk1", "zk2", "zk3"},
		zkbackend.WithChroot("/billing/locks"), zkbackend.WithDigest("billing", os.Getenv("ZK_PASSWORD")))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}

// TLS with authorities of one's own: the dialer connects with the servers' secureClientPort.
func ExampleWithDialer() {
	pem, err := os.ReadFile("/etc/ssl/zk.pem")
	if err != nil {
		log.Fatal(err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		log.Fatal("no certificate in /etc/ssl/zk.pem")
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}}

	l, err := zkbackend.New(context.Background(), []string{"zk1:2281", "zk2:2281", "zk3:2281"},
		zkbackend.WithDialer(dialer.DialContext))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}
