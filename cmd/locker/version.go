package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this program was built from",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return output(cmd, buildVersion()+"\n") },
	}
}

func buildVersion() string {
	info, _ := debug.ReadBuildInfo()
	return version(info)
}

// version is one line of what the Go toolchain has written into the program; info may be nil.
func version(info *debug.BuildInfo) string {
	number, commit := "(unknown)", ""
	if info != nil {
		if info.Main.Version != "" {
			number = info.Main.Version
		}
		settings := make(map[string]string)
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if rev := settings["vcs.revision"]; rev != "" {
			commit = " " + rev
			if settings["vcs.modified"] == "true" {
				commit += " with changes"
			}
		}
	}
	return fmt.Sprintf("locker %s%s, %s %s/%s", number, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
