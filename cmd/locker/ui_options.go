package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"
)

// uiOptions are the flags of ui.
type uiOptions struct {
	backend   string
	listen    string
	every     time.Duration
	tokenFile string
	cert, key string
	pair      tls.Certificate // what is in these files
	insecure  bool

	allowBreak bool
	audit      string
}

// minToken is the shortest token: nobody guesses 16 random characters.
const minToken = 16

// check returns the token, if there is one. What other machines can see needs a token, and TLS.
func (o *uiOptions) check() (token string, err error) {
	if _, _, err := net.SplitHostPort(o.listen); err != nil || strings.ContainsAny(o.listen, "/?@") { // part of a URL
		return "", errors.New("--listen is invalid: want HOST:PORT, such as 127.0.0.1:8321")
	}
	switch {
	case o.every < minEvery:
		return "", fmt.Errorf("--every must be at least %v", minEvery)
	case (o.cert == "") != (o.key == ""):
		return "", errors.New("--cert and --key belong together")
	case !o.local() && o.tokenFile == "":
		return "", fmt.Errorf("--listen: other machines can see %s, so --token-file is needed", o.listen)
	case !o.local() && o.cert == "" && !o.insecure:
		return "", fmt.Errorf("--listen: other machines can see %s, so --cert and --key are needed, or --insecure", o.listen)
	case o.allowBreak && o.tokenFile == "":
		return "", fmt.Errorf("--allow-break: every user of this machine can reach %s, so --token-file is needed", o.listen)
	case o.audit != "" && !o.allowBreak:
		return "", errors.New("--audit needs --allow-break")
	}
	if o.cert != "" {
		if o.pair, err = tls.LoadX509KeyPair(o.cert, o.key); err != nil {
			return "", fmt.Errorf("--cert, --key: %w", withoutPath(err))
		}
	}
	if o.tokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", withoutPath(err))
	}
	token = strings.TrimSpace(string(text))
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("--token-file: want one word of at least %d characters", minToken)
	}
	return token, nil
}

// warning says that others may read the token; empty: they can't. On Windows the mode doesn't say it, and a pipe or
// /dev/stdin has nothing to read for others.
func (o *uiOptions) warning() string {
	info, err := os.Stat(o.tokenFile)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o077 == 0 || runtime.GOOS == "windows" {
		return ""
	}
	return fmt.Sprintf("--token-file: other users may read or change the token (mode %04o); chmod 600 prevents that", info.Mode().Perm())
}

// local reports whether only this machine can see the page.
func (o *uiOptions) local() bool {
	host, _, _ := net.SplitHostPort(o.listen)
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// hosts are the names that the page has on this machine. Elsewhere it has any: its token keeps other
// sites out.
func (o *uiOptions) hosts() []string {
	if !o.local() {
		return nil
	}
	host, _, _ := net.SplitHostPort(o.listen)
	return []string{"localhost", "127.0.0.1", "::1", host}
}

// url is where the page is.
func (o *uiOptions) url(at net.Addr) string {
	scheme := "http"
	if o.cert != "" {
		scheme = "https"
	}
	host, _, _ := net.SplitHostPort(o.listen)
	_, port, _ := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host, _ = os.Hostname()
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}
