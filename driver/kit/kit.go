// Package kit is what the backends of this project share, and authors of further backends may use: requests that travel
// in groups, parameters of URLs, TLS files. The contract, and all that a backend must know, is in package driver.
package kit
