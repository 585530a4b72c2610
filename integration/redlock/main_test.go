//go:build unix

package redlock

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestMain(m *testing.M) { itest.Main(m, 6) }
