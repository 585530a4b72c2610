package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What other machines can see needs a token, and TLS or a word that it isn't wanted.
func TestUIOptions(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	short := filepath.Join(t.TempDir(), "short")
	for file, text := range map[string]string{secret: "  0123456789abcdef\n", short: "0123456789abcde\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		options uiOptions
		token   string
		wrong   string
	}{
		{uiOptions{listen: "127.0.0.1:0"}, "", ""},
		{uiOptions{listen: "127.9.9.9:1"}, "", ""},
		{uiOptions{listen: "localhost:8321"}, "", ""},
		{uiOptions{listen: "[::1]:8321", tokenFile: secret}, "0123456789abcdef", ""},
		{uiOptions{listen: "8321"}, "", "want HOST:PORT"},
		{uiOptions{listen: ":8321"}, "", "--token-file is needed"},
		{uiOptions{listen: "0.0.0.0:8321"}, "", "--token-file is needed"},
		{uiOptions{listen: "web-1:8321"}, "", "--token-file is needed"},
		{uiOptions{listen: "localhost.example:8321"}, "", "--token-file is needed"},
		{uiOptions{listen: ":8321", tokenFile: secret}, "", "or --insecure"},
		{uiOptions{listen: ":8321", insecure: true}, "", "--token-file is needed"},
		{uiOptions{listen: ":8321", tokenFile: secret, insecure: true}, "0123456789abcdef", ""},
		{uiOptions{listen: ":8321", tokenFile: secret, cert: "c", key: "k"}, "", "--cert, --key: no such file"},
		{uiOptions{listen: ":8321", tokenFile: secret, cert: secret, key: secret}, "", "--cert, --key: tls: failed to find any PEM data"},
		{uiOptions{listen: "postgres://h"}, "", "want HOST:PORT"},
		{uiOptions{listen: ":8321", tokenFile: secret, cert: "c"}, "", "belong together"},
		{uiOptions{listen: "127.0.0.1:0", allowBreak: true}, "", "every user of this machine can reach 127.0.0.1:0, so --token-file is needed"},
		{uiOptions{listen: "127.0.0.1:0", allowBreak: true, tokenFile: secret}, "0123456789abcdef", ""},
		{uiOptions{listen: "127.0.0.1:0", tokenFile: secret, audit: "a"}, "", "--audit needs --allow-break"},
		{uiOptions{listen: ":8321", tokenFile: short, insecure: true}, "", "at least 16 characters"},
		{uiOptions{listen: ":8321", tokenFile: secret + "x", insecure: true}, "", "no such file"},
	} {
		test.options.every = time.Second
		token, err := test.options.check()
		if token != test.token || (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: %q, %v, want %q, and an error with %q", test.options, token, err, test.token, test.wrong)
		}
	}
	if _, err := (&uiOptions{listen: "127.0.0.1:0", every: time.Millisecond}).check(); err == nil {
		t.Error("a service would be asked a thousand times a second")
	}
}

// A token that others may read protects nothing from them.
func TestUIWarnsOfATokenThatOthersMayRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the mode of a file doesn't say who may read it")
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "0640", 0o604: "0604", 0o644: "0644"} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		got := (&uiOptions{tokenFile: file}).warning()
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%04o: %q, want a warning with %q", mode, got, want)
		}
	}
	for _, other := range []string{"", os.DevNull} {
		if got := (&uiOptions{tokenFile: other}).warning(); got != "" {
			t.Errorf("%q: %q, want nothing", other, got)
		}
	}
}

func TestUIAddress(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]uiOptions{
		"http://127.0.0.1:4711/":      {listen: "127.0.0.1:0"},
		"http://localhost:4711/":      {listen: "localhost:0"},
		"https://[::1]:4711/":         {listen: "[::1]:0", cert: "c"},
		"http://" + host + ":4711/":   {listen: ":0"},
		"https://" + host + ":4711/":  {listen: "0.0.0.0:0", cert: "c"},
		"http://web-1.example:4711/":  {listen: "web-1.example:0"},
		"https://web-2.example:4711/": {listen: "web-2.example:0", cert: "c"},
	} {
		if got := o.url(at); got != want {
			t.Errorf("%+v is on %s, want %s", o, got, want)
		}
	}
}
