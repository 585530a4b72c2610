package dialog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/fencedlock/locker/membackend"
)

// A program that has ended its input before the grant was announced gets no line about the lease.
func TestAGrantThatNobodyWasToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		_ = p.in.Close()
		<-p.Ended()
		synctest.Wait()
		_, lease := acquire(t, membackend.NewLink())
		if err := p.Keep(t.Context(), lease); err != nil {
			t.Errorf("Keep = %v", err)
		}
		go func() {
			if p.out.Scan() {
				t.Errorf("line %s, want none", p.out.Text())
			}
		}()
		if err := p.Released(lease.Release(context.Background())); !errors.Is(err, ErrUnannounced) {
			t.Errorf("Released = %v, want ErrUnannounced", err)
		}
	})
}
