package domain

import (
	"strings"

	"github.com/beevik/etree"
	"github.com/google/uuid"
)

// authTypes are libvirt's types of the secrets with which QEMU authenticates, by protocol. libvirt has no type of its
// own for passwords of web servers.
var authTypes = map[string]string{
	"rbd": "ceph", "iscsi": "iscsi", "http": "iscsi", "https": "iscsi", "ftp": "iscsi", "ftps": "iscsi",
}

// readSourceAuth reads how QEMU authenticates. libvirt accepts the element in the source and in the disk. A secret that
// is named by its usage can be kept, but not declared: it is read as nil.
func readSourceAuth(disk, source *etree.Element) *SourceAuth {
	auth := child(source, "auth")
	if auth == nil {
		auth = child(disk, "auth")
	}
	secret := attr(child(auth, "secret"), "uuid")
	if secret == "" {
		return nil
	}
	return &SourceAuth{Username: attr(auth, "username"), Secret: secret}
}

// applySourceAuth sets how QEMU authenticates, if that is declared.
func applySourceAuth(disk, source *etree.Element, want NetworkSource) {
	have := readSourceAuth(disk, source)
	if want.Auth == nil || have != nil && *have == *want.Auth {
		return
	}
	dropChildren(disk, "auth")
	dropChildren(source, "auth")
	auth := element("auth", "username", want.Auth.Username)
	auth.AddChild(element("secret", "type", authTypes[want.Protocol], "uuid", want.Auth.Secret))
	source.AddChild(auth)
}

func (a SourceAuth) validate(c *checker, path, protocol string) {
	c.require(protocol == "" || authTypes[protocol] != "", path,
		"Only the protocols "+strings.Join(sortedKeys(authTypes), ", ")+" have it.")
	c.require(a.Username != "", path+".username", "It must be declared.")
	c.readable(path+".username", a.Username)
	_, err := uuid.Parse(a.Secret)
	c.require(err == nil, path+".secret", "It isn't the id of a virtfleet_secret, which is a UUID.")
}
