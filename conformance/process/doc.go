// Package process has holders of locks in other processes, which cases can kill and suspend.
//
// A harness's hook Process starts one. The process is a program of the backend's author that opens
// a Locker and calls [Serve] on its standard input and output. The test binary itself can be that
// program:
//
//	func TestMain(m *testing.M) {
//		url, isHolder := os.LookupEnv("HOLDER_URL")
//		if !isHolder {
//			os.Exit(m.Run())
//		}
//		l, err := mybackend.Open(url)
//		if err == nil {
//			err = process.Serve(l, os.Stdin, os.Stdout)
//		}
//		if err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//	}
//
//	h.Process = func(t conformance.T) process.Process {
//		cmd := exec.Command(os.Args[0])
//		cmd.Env = append(os.Environ(), "HOLDER_URL="+url)
//		return process.Start(t, cmd)
//	}
//
// Commands and answers are JSON values, one after the other. [New] returns a Process for a holder
// that was started by something other than a command.
package process
