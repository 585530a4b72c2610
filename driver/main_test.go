package driver_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/locker/driver"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks pay for the system's clocks
		driver.SimulateSuspensions()
	}
	goleak.VerifyTestMain(m)
}
