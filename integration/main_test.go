//go:build unix

package integration

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestMain(m *testing.M) { itest.Main(m, 4) }
