package driver_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/locker/driver"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flagValue("test.bench") == "" { // benchmarks pay for the system's clocks
		driver.SimulateSuspensions()
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if code == 0 && flagValue("test.run")+flagValue("test.skip")+flagValue("test.list") == "" { // all tests ran
			for _, row := range driver.TransitionsNeverTaken() {
				fmt.Println("FAIL: no test takes the transition", row)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

func flagValue(name string) string { return flag.Lookup(name).Value.String() }
