// Locker runs commands under a lock, shows and breaks locks, and helps to choose and test a lock
// service.
//
//	locker run [flags] NAME -- CMD [ARG...]   run CMD while the lock NAME is held
//	locker hold NAME                          hold a lock for a program in any language
//	locker ls [PREFIX]                        list the locks that are held or waited for
//	locker show NAME                          show who holds a lock and who waits for it
//	locker break NAME                         take a lock away from its holder
//	locker top [PREFIX]                       show the locks on the terminal while they change
//	locker ui [PREFIX]                        show the locks in a browser while they change
//	locker conformance                        run the test suite on your lock service
//	locker bench                              measure your lock service
//	locker choose                             find the backend for a purpose
//	locker demo                               show what a fencing token is for
//	locker matrix                             print the matrix of guarantees
//	locker version                            print what this program was built from
//
// The backend of run, hold, ls, show, break, top, ui, conformance and bench comes from --backend or
// LOCKER_URL; without either, locks are files in a private directory of the user. CMD finds
// LOCKER_NAME and LOCKER_TOKEN in its environment. It also finds LOCKER_HELD, which tells a locker
// run in CMD which locks are held around it. docs/command.md has the details.
//
// # Exit codes
//
// The code of run is CMD's own, and 128+n when signal n ended CMD, or locker while it waited. The
// others:
//
//	116  usage: bad arguments, or a backend that can't do or doesn't promise what was asked
//	117  the lock service failed
//	118  the lock is held: --no-wait, --wait ran out, or a locker run around this one has it
//	119  the lease was lost, and CMD was ended because of that
//	126  CMD can't be started
//	127  CMD was not found
//
// The code of hold is 0 when the lock was released, 128+n when signal n ended the lease or the wait,
// 1 when nobody has read its output, and 116 to 119 as with run.
//
// The other commands return 0, 1 when a case of the suite has failed, bench has found that leases
// are lost, or nearly, --check has found something, break has taken nothing away, or output can't be
// written, 116 or 117; conformance, bench, break, demo, top and ui also return 128+n when signal n
// ended them.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	silenceClients()
	err := newRoot().Execute()
	os.Exit(report(os.Stderr, err))
}

// helpWidth is how many columns the help has at most.
const helpWidth = 100

func newRoot() *cobra.Command {
	printVersion := false
	root := &cobra.Command{
		Use:           "locker",
		Short:         "Run commands under a lock",
		Long:          "locker runs commands under a lock, shows and breaks locks, and helps to choose and test a lock\nservice.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case printVersion:
				return output(cmd, buildVersion()+"\n")
			case len(args) == 0:
				return errors.New("a command is missing; see locker --help")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.Flags().BoolVarP(&printVersion, "version", "v", false, "version for locker") // cobra's own hides that it can't be written
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprint(".FlagUsagesWrapped ", helpWidth)))
	root.AddCommand(newRun(), newHold(), newLs(), newShow(), newBreak(), newTop(), newUI(), newChoose(), newConformance(), newHolder(), newBench(), newDemo(), newMatrix(), newVersion())
	root.SetHelpCommand(newHelp())
	printHelp(root)
	checkCompletion(root)
	return root
}
