package zkbackend

import (
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"
)

// permissions are the letters of zkCli.
var permissions = map[rune]int32{
	'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin,
}

// parseACL reads entries in the way of zkCli, SCHEME:ID:PERMISSIONS, with commas between them. An id may have colons.
func parseACL(text string) ([]zk.ACL, error) {
	bad := errors.New("acl is SCHEME:ID:PERMISSIONS[,…], with permissions out of cdrwa")
	var list []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		scheme, rest, ok := strings.Cut(entry, ":")
		i := strings.LastIndexByte(rest, ':')
		if !ok || i < 0 || scheme == "" || i+1 == len(rest) {
			return nil, bad
		}
		acl := zk.ACL{Scheme: scheme, ID: rest[:i]}
		for _, letter := range rest[i+1:] {
			p, known := permissions[letter]
			if !known {
				return nil, bad
			}
			acl.Perms |= p
		}
		list = append(list, acl)
	}
	return list, nil
}
