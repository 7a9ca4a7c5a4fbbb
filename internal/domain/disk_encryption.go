package domain

import (
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// EncryptionSecret is the name of the row with the secret that opens a LUKS disk.
const EncryptionSecret = "encryption.secret"

// encryptionRow is QEMU's LUKS encryption of a disk with one passphrase. Other kinds of encryption are left as they
// are.
var encryptionRow = Attribute{
	Name: EncryptionSecret, Why: whenOpened, Normal: strings.ToLower,
	Read: func(disk *etree.Element) string { return attr(child(readEncryption(disk), "secret"), "uuid") },
	Write: func(disk *etree.Element, secret string) error {
		writeEncryption(disk, secret)
		return nil
	},
	Check: checkSecretID,
	Doc: "`id` of the `virtfleet_secret` of usage `volume` with the passphrase. Every host that the VM moves to needs " +
		"the secret. `\"\"`, which a disk with `pool` refuses, removes it from the definition; the data stays encrypted.",
}

// encryptedFormats are the formats in which libvirt accepts LUKS.
var encryptedFormats = []string{"raw", "qcow2"}

// readEncryption returns the element of an encryption that encryptionRow describes, and nil if the disk has none.
// libvirt accepts the element in the source and in the disk.
func readEncryption(disk *etree.Element) *etree.Element {
	found := child(disk, "source", "encryption")
	if found == nil {
		found = child(disk, "encryption")
	}
	engine, secrets := attr(found, "engine"), children(found, "secret")
	if device := attr(disk, "device"); device != "" && device != "disk" || attr(found, "format") != "luks" ||
		engine != "" && engine != "qemu" || len(secrets) != 1 || attr(secrets[0], "uuid") == "" {
		return nil
	}
	return found
}

// writeEncryption sets the secret of a disk; "" removes the encryption. Everything else in the element stays.
func writeEncryption(disk *etree.Element, secret string) {
	found := readEncryption(disk)
	switch {
	case found != nil && secret != "":
		setAttr(child(found, "secret"), "uuid", secret)
	case found != nil:
		drop(found)
	case secret != "" && child(disk, "source") != nil:
		source := child(disk, "source")
		dropChildren(disk, "encryption")
		dropChildren(source, "encryption")
		add(source, "encryption", "format", "luks").AddChild(element("secret", "type", "passphrase", "uuid", secret))
	}
}

// checkEncryption checks that the disk has nothing that can't be combined with encryption.
func (d Disk) checkEncryption(c *checker, path string) {
	if d.Values[EncryptionSecret] == "" {
		return
	}
	path = join(path, "encryption")
	c.require(d.Device == "" || d.Device == "disk", path,
		"Only a disk (device disk) can be encrypted, not a drive with removable media or a lun.")
	c.require(d.Format == "" || slices.Contains(encryptedFormats, d.Format), path,
		"Only the formats raw and qcow2 can be encrypted with LUKS.")
}
