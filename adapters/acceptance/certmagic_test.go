package acceptance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	certmagiclocker "github.com/fencedlock/locker/adapters/certmagic"
)

const machines = 4

// authority issues certificates for one process at a time.
type authority struct {
	key             *ecdsa.PrivateKey
	issued, working atomic.Int64
	most            atomic.Int64
}

func (a *authority) IssuerKey() string { return "authority" }

func (a *authority) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.most.Store(max(a.most.Load(), a.working.Add(1)))
	defer a.working.Add(-1)
	a.issued.Add(1)
	select {
	case <-time.After(100 * time.Millisecond): // so that others come meanwhile
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: csr.DNSNames, NotBefore: time.Now(), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// Four machines want a certificate for the same name, whose lock has a name that is cut. One gets it from
// the authority, and the others from the storage.
func TestCertmagicObtains(t *testing.T) {
	onEach(t, func(t *testing.T, s service) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		ca := &authority{key: key}
		domain := strings.Repeat("a-long-label.", 18) + "example"
		dir := t.TempDir()
		var all sync.WaitGroup
		for range machines {
			storage := certmagiclocker.Wrap(&certmagic.FileStorage{Path: dir}, s.open(t))
			var config *certmagic.Config
			cache := certmagic.NewCache(certmagic.CacheOptions{
				GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
				Logger:           zap.NewNop(),
			})
			t.Cleanup(cache.Stop)
			config = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{ca}, Logger: zap.NewNop()})
			all.Go(func() {
				if err := config.ObtainCertSync(t.Context(), domain); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if issued, most := ca.issued.Load(), ca.most.Load(); issued != 1 || most != 1 {
			t.Errorf("%d certificates were issued, %d at once, want one", issued, most)
		}
	})
}

// The three interfaces of CertMagic, from four storages: one TryLock of four is successful, Lock waits for
// Unlock, and RenewLockLease is only for the holder.
func TestCertmagicInterfaces(t *testing.T) {
	const name = "ari_example"
	onEach(t, func(t *testing.T, s service) {
		var storages [machines]*certmagiclocker.Storage
		for i := range storages {
			storages[i] = certmagiclocker.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, s.open(t))
		}
		holder := -1
		for i, storage := range storages {
			ok, err := storage.TryLock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if ok && holder >= 0 {
				t.Errorf("storages %d and %d have the lock", holder, i)
			}
			if ok {
				holder = i
			}
		}
		if holder < 0 {
			t.Fatal("no storage has the lock")
		}
		for i, storage := range storages {
			if err := storage.RenewLockLease(t.Context(), name, time.Minute); (err == nil) != (i == holder) || err != nil && !errors.Is(err, certmagiclocker.ErrNotLocked) {
				t.Errorf("RenewLockLease of storage %d = %v, and %d has the lock", i, err, holder)
			}
		}
		var inside atomic.Int64
		var all sync.WaitGroup
		for i, storage := range storages {
			if i == holder {
				continue
			}
			all.Go(func() {
				if err := storage.Lock(t.Context(), name); err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two have the lock")
				}
				inside.Add(-1)
				if err := storage.Unlock(t.Context(), name); err != nil {
					t.Error(err)
				}
			})
		}
		if err := storages[holder].Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
}
