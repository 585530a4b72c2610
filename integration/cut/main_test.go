//go:build unix

package cut

import (
	"testing"

	"github.com/fencedlock/locker/integration/internal/itest"
)

func TestMain(m *testing.M) { itest.Main(m, 4) }
