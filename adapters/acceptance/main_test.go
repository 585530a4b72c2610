package acceptance

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if rawURL := os.Getenv(migratorURL); rawURL != "" {
		if err := migrateFile(rawURL, os.Getenv(migratorPrefix), os.Getenv(migratorFile)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set { // a test runs on all services at once, and mostly waits
		_ = flag.Set("test.parallel", "32")
	}
	os.Exit(m.Run())
}
