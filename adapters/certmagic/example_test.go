package certmagiclocker_test

import (
	"context"
	"fmt"

	"github.com/caddyserver/certmagic"

	certmagiclocker "github.com/fencedlock/locker/adapters/certmagic"
	"github.com/fencedlock/locker/membackend"
)

func Example() {
	l := membackend.New() // in a program: locker.Open(ctx, os.Getenv("LOCKER_URL"), locker.Efficiency)
	defer l.Close()
	shared := &certmagic.FileStorage{Path: "/mnt/shared/certmagic"}
	storage := certmagiclocker.Wrap(shared, l)
	certmagic.Default.Storage = storage // before certmagic.TLS, HTTPS or NewDefault
	fmt.Println(storage)

	ctx := context.Background() // what CertMagic does:
	if err := storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// FileStorage:/mnt/shared/certmagic with locks on mem
	// <nil>
}
