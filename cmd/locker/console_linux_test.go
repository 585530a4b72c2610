package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// console is the far end of a terminal: what a user types and sees.
type console struct {
	*os.File
	out <-chan string
}

// startOnTerminal starts the test binary as a session of its own that has a terminal.
func startOnTerminal(t *testing.T, env []string, args ...string) (console, *exec.Cmd) {
	t.Helper()
	// The file is non-blocking, so that the end of the test can close it while it is being read.
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	control := func(request uintptr, value unsafe.Pointer) {
		raw, err := master.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var errno syscall.Errno
		err = raw.Control(func(fd uintptr) {
			_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(value))
		})
		if err != nil || errno != 0 {
			t.Fatalf("ioctl %#x: %v, %v", request, err, errno)
		}
	}
	var number, unlock int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&unlock))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	// By default Ctrl-C discards what was written and not read yet, and that may be the answer to
	// it already.
	var mode syscall.Termios
	control(syscall.TCGETS, unsafe.Pointer(&mode))
	mode.Lflag |= syscall.NOFLSH
	control(syscall.TCSETS, unsafe.Pointer(&mode))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(t), args...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the kernel sends SIGHUP to the other processes on the terminal
		_ = cmd.Wait()
		_ = master.Close()
	})
	return console{master, lines(master)}, cmd
}

func (c console) typeIn(t *testing.T, text string) {
	t.Helper()
	if _, err := c.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// see reads lines up to one that ends with text. The terminal echoes what is typed, so lines may
// have more before it.
func (c console) see(t *testing.T, text string) {
	t.Helper()
	for {
		line := strings.TrimRight(next(t, c.out), "\r")
		t.Log(line)
		if line == "<end>" {
			t.Fatalf("the terminal ended before it showed %q", text)
		}
		if strings.HasSuffix(line, text) {
			return
		}
	}
}

func init() {
	helpers["shell"] = helpShell
	helpers["reader"] = helpReader
}

// helpShell does for one job what an interactive shell does: it puts the command args into a group
// of its own in the foreground, tells what becomes of it, and takes the terminal back when it
// stops. On a line that says fg it continues the job.
func helpShell(args []string) {
	signal.Ignore(syscall.SIGTTOU, syscall.SIGINT, syscall.SIGTSTP)
	tty := openTerminal()
	// A shell resets what it ignores itself for its jobs; env(1) does that here.
	cmd := exec.Command("env", append([]string{"--default-signal=TTOU,INT,TSTP"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: tty.fd}
	if err := cmd.Start(); err != nil {
		fmt.Println("shell:", err)
		return
	}
	job := cmd.Process.Pid
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(job, &status, syscall.WUNTRACED, nil); err != nil {
			fmt.Println("shell:", err)
			return
		}
		hadIt := tty.foreground() == job
		tty.setForeground(syscall.Getpgrp())
		switch {
		case status.Exited():
			fmt.Printf("shell: exit code %d, terminal given back: %v\n", status.ExitStatus(), hadIt)
			return
		case status.Signaled():
			fmt.Printf("shell: ended by %v, terminal given back: %v\n", status.Signal(), hadIt)
			return
		}
		fmt.Printf("shell: stopped, terminal given back: %v\n", hadIt)
		var command string
		if _, err := fmt.Scanln(&command); err != nil || command != "fg" {
			fmt.Println("shell: want fg:", command, err)
			return
		}
		tty.setForeground(job)
		_ = syscall.Kill(-job, syscall.SIGCONT)
	}
}

// helpReader prints its process id and the lines it reads.
func helpReader([]string) {
	fmt.Println("reader", os.Getpid())
	for {
		var line string
		if _, err := fmt.Scanln(&line); err != nil {
			fmt.Println("reader:", err)
			return
		}
		fmt.Println("read:", line)
	}
}

// onTerminal starts locker as the job of a shell on a terminal.
func onTerminal(t *testing.T, args ...string) console {
	t.Helper()
	c, _ := startOnTerminal(t, fileEnv(t), append([]string{"shell", self(t), "run"}, args...)...)
	return c
}

// seePid reads "NAME pid" and returns the process id.
func (c console) seePid(t *testing.T, name string) (pid int) {
	t.Helper()
	for {
		line := next(t, c.out)
		if _, err := fmt.Sscanf(line, name+" %d", &pid); err == nil {
			return pid
		}
		if line == "<end>" {
			t.Fatalf("the terminal ended before it showed the process id of %s", name)
		}
	}
}

// wantState waits until a process is in one of the states of /proc/PID/stat. It looks again and again,
// because nothing says that a state has changed.
func wantState(t *testing.T, pid int, states string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		state := stat[bytes.LastIndexByte(stat, ')')+2]
		if strings.IndexByte(states, state) >= 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process is in state %c, want one of %s", state, states)
		}
	}
}
