package kit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencedlock/locker/driver/kit"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		limited, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute+time.Second, cancel)
		for _, tc := range []struct {
			name string
			ctx  context.Context
			d    time.Duration
			want bool
			took time.Duration
		}{
			{"to the end", t.Context(), time.Minute, true, time.Minute},
			{"not at all", t.Context(), 0, true, 0},
			{"less than nothing", t.Context(), -1, true, 0},
			{"not at all, the context has ended", ended, 0, false, 0},
			{"the context has ended", ended, time.Minute, false, 0},
			{"the context ends", limited, time.Minute, false, time.Second},
		} {
			began := time.Now()
			if got := kit.Sleep(tc.ctx, tc.d); got != tc.want || time.Since(began) != tc.took {
				t.Errorf("%s: Sleep = %v after %v, want %v after %v", tc.name, got, time.Since(began), tc.want, tc.took)
			}
		}
	})
}
