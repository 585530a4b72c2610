//go:build unix

package redis

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestMain(m *testing.M) { itest.Main(m, 6) }
