package kit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles is what a URL says about TLS: the parameters ca_file, cert_file, key_file, server_name and skip_verify.
type TLSFiles struct {
	CA, Cert, Key string // paths of PEM files
	ServerName    string
	SkipVerify    bool
}

// TLSFiles returns the values of the parameters about TLS.
func (p *Params) TLSFiles() TLSFiles {
	return TLSFiles{
		CA:         p.String("ca_file", ""),
		Cert:       p.String("cert_file", ""),
		Key:        p.String("key_file", ""),
		ServerName: p.String("server_name", ""),
		SkipVerify: p.Bool("skip_verify", false),
	}
}

// Load reads the files. If on is false it returns nil, and refuses parameters that would have no
// effect; scheme, which is the scheme of URLs with TLS, is for the text of this error. Without a
// file of authorities the system's authorities count. Errors name the parameter.
func (f TLSFiles) Load(on bool, scheme string) (*tls.Config, error) {
	if !on {
		if f != (TLSFiles{}) {
			return nil, errors.New("ca_file, cert_file, key_file, server_name and skip_verify are for " + scheme + "://")
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName, InsecureSkipVerify: f.SkipVerify} //nolint:gosec // it was asked for
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca_file: it has no certificate")
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
