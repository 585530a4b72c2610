package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/fencedlock/locker/integration/netns"
)

// All servers of a service share one network, so an address doesn't say which server has sent a packet. Each
// server has a group of its own, by which the firewall finds the packets that it sends, and marks
// their connections. Then it drops what arrives on these.

// serverGroup is the group of the first server; the next ones follow.
const serverGroup = 28800

func groupOf(server int) string { return strconv.Itoa(serverGroup + server) }

func isolationUsable(context.Context) error {
	if err := netns.Usable(); err != nil {
		return err
	}
	_, err := exec.LookPath("nsenter")
	return err
}

// isolations makes the marks: the mark of an earlier isolation stays with its connections.
var isolations atomic.Uint32

// isolate drops all packets between a server and the others, until restore is called. It
// must be called after an error as well.
func (s *service) isolate(ctx context.Context, server int) (restore func() error, err error) {
	mark := strconv.Itoa(int(isolations.Add(1)))
	var done [][]string
	restore = func() (err error) {
		for _, rule := range done {
			err = errors.Join(err, s.firewall(context.WithoutCancel(ctx), "--delete", rule))
		}
		return err
	}
	for _, rule := range isolationRules(server, mark, s.peerPorts) {
		if err := s.firewall(ctx, "--append", rule); err != nil {
			return restore, err
		}
		done = append(done, rule)
	}
	return restore, nil
}

// isolationRules are rules of iptables, without the command. ports are those for other servers, of
// each server.
func isolationRules(server int, mark string, ports [][]int) [][]string {
	var own, all []string
	for i, some := range ports {
		for _, port := range some {
			all = append(all, strconv.Itoa(port))
			if i == server {
				own = append(own, strconv.Itoa(port))
			}
		}
	}
	set := []string{"--jump", "CONNMARK", "--set-mark", mark}
	marked := func(match ...string) []string {
		return append(append([]string{"OUTPUT", "--table", "mangle", "--protocol", "tcp"}, match...), set...)
	}
	return [][]string{
		marked("--match", "owner", "--gid-owner", groupOf(server), "--suppl-groups", "--match", "multiport", "--ports", strings.Join(all, ",")),
		marked("--match", "multiport", "--destination-ports", strings.Join(own, ",")),
		{"INPUT", "--match", "connmark", "--mark", mark, "--jump", "DROP"},
	}
}

func (s *service) firewall(ctx context.Context, action string, rule []string) error {
	args := append([]string{"--net=/proc/" + strconv.Itoa(s.pid) + "/ns/net", "iptables", "--wait", action}, rule...)
	if out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s %s: %w: %s", action, strings.Join(rule, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
